// Conditions: comparisons become flags and flags become jumps, without a value in between.

import { type Condition, type Label, negated } from '../../isa/emit.js';
import type { Width } from '../../isa/registers.js';
import { rsp } from '../../isa/registers.js';
import { wrap } from '../fold.js';
import type { Relation } from '../tree.js';
import type { Arithmetic, Kind, Value } from '../value.js';
import { type Held, Operands } from './operands.js';

const signedConditions: Readonly<Record<Relation, Condition>> = {
  '==': 'e',
  '!=': 'ne',
  '<': 'l',
  '<=': 'le',
  '>': 'g',
  '>=': 'ge',
};
const unsignedConditions: Readonly<Record<Relation, Condition>> = {
  ...signedConditions,
  '<': 'b',
  '<=': 'be',
  '>': 'a',
  '>=': 'ae',
};

function fits(value: bigint, kind: Kind): boolean {
  return wrap(value, kind) === value;
}

/** Whether a constant can be an instruction's immediate: at 64 bits only what sign-extends from 32. */
export function isImmediate(value: bigint, width: Width): boolean {
  return width < 64 || BigInt.asIntN(64, value) === BigInt.asIntN(32, value);
}

/** The value before it was widened; only what costs nothing to compare as it is. */
function beforeWidening(value: Value): Value | undefined {
  if (value.op !== 'convert' || value.operand.kind.width >= value.kind.width) return undefined;
  return value.operand.kind.width === 32 || value.operand.op === 'load' ? value.operand : undefined;
}

/** The same comparison on fewer bits, where the result is the same: `c == 'x'` on 8 bits, not on an extended int. */
function narrowed(relation: Relation, left: Value, right: Value): readonly [Value, Value] {
  const inner = beforeWidening(left);
  if (inner === undefined) return [left, right];
  const isEquality = relation === '==' || relation === '!=';
  // A negative number that becomes unsigned is above all others then, which fewer bits do not show.
  if (inner.kind.isSigned && !left.kind.isSigned && !isEquality) return [left, right];
  if (right.op === 'constant') {
    const value = inner.kind.isSigned ? BigInt.asIntN(right.kind.width, right.value) : right.value;
    // A 16-bit immediate makes decoding slow (length-changing prefix), unless it is short.
    const isSlow = inner.kind.width === 16 && value !== BigInt.asIntN(8, value);
    if (!fits(value, inner.kind) || isSlow) return [left, right];
    return narrowed(relation, inner, { ...right, value, kind: inner.kind });
  }
  const other = beforeWidening(right);
  if (other === undefined || other.kind.width !== inner.kind.width) return [left, right];
  return other.kind.isSigned === inner.kind.isSigned ? [inner, other] : [left, right];
}

/** The part of the compiler that branches. */
export abstract class Branches extends Operands {
  /** Jumps to `target` if the value's truth is `when`; else goes on with the next instruction. */
  protected branch(value: Value, target: Label, when: boolean): void {
    const { code } = this;
    switch (value.op) {
      case 'constant':
        if ((value.value !== 0n) === when) this.jump(target);
        return;
      case 'not':
        this.branch(value.operand, target, !when);
        return;
      case 'both':
      case 'either':
        this.branchChain(value.op, chainOf(value.op, value), target, when);
        return;
      case 'choose': {
        const otherwise = this.innerLabel('otherwise');
        const end = this.innerLabel('end');
        this.branch(value.condition, otherwise, false);
        this.conditionally(() => this.branch(value.then, target, when));
        this.jump(end);
        code.bind(otherwise);
        this.conditionally(() => this.branch(value.otherwise, target, when));
        code.bind(end);
        return;
      }
      default: {
        const condition = this.flagsOf(value);
        this.jumpIf(when ? condition : negated(condition), target);
      }
    }
  }

  /**
   * `a && b && c` (or `||`): each part runs only when all before it have run, so what an earlier part has loaded is there for
   * the later ones; after the chain only what the first part has loaded is.
   */
  private branchChain(op: 'both' | 'either', parts: readonly Value[], target: Label, when: boolean): void {
    const { code } = this;
    const decides = op === 'either';
    const isTarget = decides === when;
    const end = this.innerLabel('end');
    const [first, ...rest] = parts;
    const jump = (part: Value, isLast: boolean) => {
      if (isTarget || isLast) this.branch(part, target, when);
      else this.branch(part, end, decides);
    };
    if (first !== undefined) jump(first, rest.length === 0);
    this.conditionally(() => {
      rest.forEach((part, index) => {
        jump(part, index === rest.length - 1);
      });
    });
    if (!isTarget) code.bind(end);
  }

  /** Sets the flags and tells the condition under which the value is true. */
  protected flagsOf(value: Value): Condition {
    if (value.op === 'not' && !isLogic(value.operand)) return negated(this.flagsOf(value.operand));
    if (value.op === 'compare')
      return this.compare(value.relation, ...narrowed(value.relation, value.left, value.right));
    return this.compareWithZero('!=', value);
  }

  private compare(relation: Relation, left: Value, right: Value): Condition {
    const { code } = this;
    const { width, isSigned } = left.kind;
    const condition = (isSigned ? signedConditions : unsignedConditions)[relation];
    if (right.op === 'constant' && isImmediate(right.value, width)) {
      if (right.value === 0n) return this.compareWithZero(relation, left);
      const immediate = BigInt.asIntN(width, right.value);
      if (this.isDirect(left)) {
        this.access(this.reachLoad(left), (memory) => code.aluMemoryImmediate('cmp', memory, immediate, width));
      } else {
        const held = this.low(left);
        code.aluImmediate('cmp', held.register, immediate, width);
        this.release(held);
      }
      return condition;
    }
    if (this.isDirect(right)) {
      const isAddressFirst = this.weight(right) > this.weight(left);
      const early = isAddressFirst ? this.reachLoad(right) : undefined;
      const held = this.low(left);
      this.access(early ?? this.reachLoad(right), (memory) => code.aluLoad('cmp', held.register, memory, width));
      this.release(held);
    } else if (this.isDirect(left)) {
      const isAddressFirst = this.weight(left) > this.weight(right);
      const early = isAddressFirst ? this.reachLoad(left) : undefined;
      const held = this.low(right);
      this.access(early ?? this.reachLoad(left), (memory) => code.aluStore('cmp', memory, held.register, width));
      this.release(held);
    } else {
      const [a, b] = this.inBoth(left, right, (value) => this.low(value));
      code.alu('cmp', a.register, b.register, width);
      this.release(a, b);
    }
    return condition;
  }

  private compareWithZero(relation: Relation, value: Value): Condition {
    const { code } = this;
    const { width, isSigned } = value.kind;
    const isEquality = relation === '==' || relation === '!=';
    if (isEquality && value.op === 'and') {
      this.testBits(value);
      return signedConditions[relation];
    }
    if (isEquality && value.op === 'convert' && value.operand.kind.width <= width) {
      return this.compareWithZero(relation, value.operand);
    }
    if (this.isDirect(value)) {
      this.access(this.reachLoad(value), (memory) => code.aluMemoryImmediate('cmp', memory, 0, width));
      return (isSigned ? signedConditions : unsignedConditions)[relation];
    }
    const held = this.low(value);
    code.test(held.register, held.register, width);
    this.release(held);
    // After test, overflow and carry are clear: the sign alone tells.
    if (isSigned && relation === '<') return 's';
    if (isSigned && relation === '>=') return 'ns';
    return (isSigned ? signedConditions : unsignedConditions)[relation];
  }

  /** Sets the zero flag if no bit is common. */
  private testBits({ left, right, kind }: Arithmetic): void {
    const { code } = this;
    if (right.op !== 'constant') {
      const [a, b] = this.inBoth(left, right, (value) => this.evaluate(value));
      code.test(a.register, b.register, kind.width);
      this.release(a, b);
      return;
    }
    const mask = BigInt.asUintN(kind.width, right.value);
    const inner = left.op === 'convert' && left.operand.op === 'load' ? left.operand : left;
    const value = inner !== left && mask < 1n << BigInt(inner.kind.width) ? inner : left;
    const width = value.kind.width === 64 && mask < 1n << 32n ? 32 : value.kind.width;
    if (!isImmediate(mask, width)) {
      const [a, b] = this.inBoth(left, right, (each) => this.evaluate(each));
      code.test(a.register, b.register, kind.width);
      this.release(a, b);
    } else if (this.isDirect(value)) {
      const immediate = BigInt.asIntN(width, mask);
      this.access(this.reachLoad(value), (memory) => code.testImmediate(memory, immediate, width));
    } else {
      const held = this.low(value);
      code.testImmediate(held.register, BigInt.asIntN(width, mask), width);
      this.release(held);
    }
  }

  /** The value in a register of which only the value's own bits count: a narrow variable needs no extension. */
  private low(value: Value): Held {
    if (value.op === 'load' && value.place.in === 'register') {
      const { register, offset } = value.place;
      const home = register === rsp || offset !== 0 ? undefined : this.machine.home(register);
      if (typeof home === 'number') return { register: home, isOwned: false, upper: 'unknown' };
    }
    return this.evaluate(value);
  }

  /** Both values in registers, the one that needs more of them first. */
  protected inBoth(left: Value, right: Value, into: (value: Value) => Held): readonly [Held, Held] {
    if (this.weight(right) > this.weight(left)) {
      const second = into(right);
      return [into(left), second];
    }
    const first = into(left);
    return [first, into(right)];
  }
}

export function isLogic(value: Value): boolean {
  if (value.op === 'not') return isLogic(value.operand);
  return value.op === 'both' || value.op === 'either';
}

function chainOf(op: 'both' | 'either', value: Value): Value[] {
  if (value.op !== op) return [value];
  return [...chainOf(op, value.left), ...chainOf(op, value.right)];
}
