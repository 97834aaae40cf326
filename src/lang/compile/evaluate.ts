// Values: code that leaves the result of a computation in a register.

import type { AluOperation, Label } from '../../isa/emit.js';
import { mem } from '../../isa/emit.js';
import { type Register, rax, rcx, rsp } from '../../isa/registers.js';
import type { Arithmetic, Kind, Value } from '../value.js';
import { isImmediate, isLogic } from './branches.js';
import { Division } from './division.js';
import type { Held } from './operands.js';

const aluNames = { add: 'add', subtract: 'sub', and: 'and', or: 'or', xor: 'xor' } as const satisfies Record<
  string,
  AluOperation
>;

/** Arithmetic is done on 32 or 64 bits. */
function operationWidth(kind: Kind): 32 | 64 {
  return kind.width === 64 ? 64 : 32;
}

/** Compiles one value or condition. Made for one run and thrown away. */
export class Evaluation extends Division {
  /** Falls through if the value is true. */
  condition(value: Value, ifFalse: Label): void {
    this.branch(value, ifFalse, false);
  }

  /** Leaves a value of 64 bits in `to`, which need not be one of the pool. */
  value(value: Value, to: Register): void {
    if (value.op === 'constant') {
      this.code.movImmediate(to, value.value);
      return;
    }
    const held = this.evaluate(value);
    if (held.register !== to) this.code.mov(to, held.register);
    this.release(held);
  }

  /** About how many registers a value needs: the heavier of two operands is computed first. */
  protected weight(value: Value): number {
    switch (value.op) {
      case 'constant':
        return 1;
      case 'load':
      case 'address': {
        if (value.place.in === 'register') return value.op === 'load' && value.kind.width >= 32 ? 0 : 1;
        const { base, index } = value.place;
        const parts = base.from === 'pointer' ? this.weight(base.value) : 0;
        return Math.max(1, index === undefined ? parts : joined(parts, this.weight(index.value)));
      }
      case 'convert':
      case 'negate':
      case 'complement':
      case 'not':
        return Math.max(1, this.weight(value.operand));
      case 'choose':
        return Math.max(this.weight(value.condition), this.weight(value.then), this.weight(value.otherwise), 1);
      case 'both':
      case 'either':
        return Math.max(this.weight(value.left), this.weight(value.right), 1);
      default: {
        const isPlain = value.right.op === 'constant' || (value.right.op === 'load' && this.weight(value.right) <= 1);
        return joined(Math.max(1, this.weight(value.left)), isPlain ? 0 : this.weight(value.right));
      }
    }
  }

  protected evaluate(value: Value): Held {
    const { code } = this;
    switch (value.op) {
      case 'constant':
        return this.constant(value.value, value.kind);
      case 'load':
        return this.load(value);
      case 'address':
        return this.address(value);
      case 'convert':
        return this.convert(value.operand, value.kind);
      case 'negate':
      case 'complement': {
        const held = this.own(value.operand);
        if (value.op === 'negate') code.neg(held.register, operationWidth(value.kind));
        else code.not(held.register, operationWidth(value.kind));
        return this.owned(held.register, 'zero');
      }
      case 'compare':
      case 'not':
        return isLogic(value) ? this.truth(value) : this.flag(value);
      case 'both':
      case 'either':
        return this.truth(value);
      case 'choose':
        return this.choose(value);
      case 'divide':
      case 'remainder':
        return this.divide(value);
      case 'shift-left':
      case 'shift-right':
      case 'rotate-right':
        return this.shift(value);
      case 'multiply':
        return this.multiply(value);
      default:
        return this.arithmetic(value, value.op);
    }
  }

  private constant(value: bigint, { width }: Kind): Held {
    const register = this.pool.take();
    // Zeros above 32 bits make the shorter instruction.
    this.code.movImmediate(register, width === 64 ? value : BigInt.asUintN(32, value));
    return this.owned(register, BigInt.asIntN(32, value) >= 0n ? 'zero and sign' : 'zero');
  }

  private address({ place, span }: Extract<Value, { op: 'address' }>): Held {
    const reached = this.reach(place, span);
    const { memory, held } = reached;
    if (!('rip' in memory) && memory.index === undefined && memory.disp === 0 && memory.base !== undefined) {
      const [base] = held;
      if (base !== undefined) return base;
      if (memory.base !== rsp) return { register: memory.base, isOwned: false, upper: 'unknown' };
    }
    this.release(...held);
    const register = this.pool.take();
    const isAbsolute = !('rip' in memory) && memory.base === undefined && memory.index === undefined;
    if (isAbsolute) this.code.movImmediate(register, memory.disp);
    else this.code.lea(register, memory);
    return this.owned(register, 'unknown');
  }

  private convert(operand: Value, to: Kind): Held {
    const from = operand.kind;
    if (to.width === 64 && from.width < 64) return this.widen(operand);
    if (to.width >= 32) {
      const held = this.evaluate(operand);
      return from.width === 64 && to.width === 32 ? { ...held, upper: 'unknown' } : held;
    }
    const held = this.evaluate(operand);
    const fitsAlready = from.width < to.width && (!from.isSigned || to.isSigned);
    if (fitsAlready) return held;
    this.release(held);
    return this.extended(this.pool.take(), to, held);
  }

  /** To 64 bits, by the sign of what it is. */
  private widen(operand: Value): Held {
    const wanted = operand.kind.isSigned ? 'sign' : 'zero';
    if (this.isDirect(operand)) {
      const register = this.loadTo(this.reachLoad(operand), wanted, operand.kind.width);
      return this.owned(register, 'unknown');
    }
    const held = this.evaluate(operand);
    if (held.upper.includes(wanted)) return held;
    this.release(held);
    const register = this.pool.take();
    if (wanted === 'sign') this.code.signExtend(register, held.register, 32);
    else this.code.zeroExtend(register, held.register, 32);
    return this.owned(register, 'unknown');
  }

  /** 0 or 1 from the flags. */
  private flag(value: Value): Held {
    const condition = this.flagsOf(value);
    const register = this.pool.take();
    this.code.set(condition, register);
    this.code.zeroExtend(register, register, 8);
    return this.owned(register, 'zero and sign');
  }

  /** 0 or 1 from jumps. */
  private truth(value: Value): Held {
    const { code } = this;
    const [no, end] = [this.innerLabel('no'), this.innerLabel('end')];
    this.branch(value, no, false);
    const register = this.pool.take();
    code.movImmediate(register, 1);
    this.jump(end);
    code.bind(no);
    code.movImmediate(register, 0);
    code.bind(end);
    return this.owned(register, 'zero and sign');
  }

  private choose({ condition, then, otherwise }: Extract<Value, { op: 'choose' }>): Held {
    const { code, pool } = this;
    const [other, end] = [this.innerLabel('otherwise'), this.innerLabel('end')];
    this.branch(condition, other, false);
    const results: Register[] = [];
    for (const branch of [then, otherwise]) {
      this.conditionally(() => {
        const held = this.own(branch);
        const [register] = results;
        if (register !== undefined && register !== held.register) code.mov(register, held.register);
        results.push(held.register);
        pool.give(held.register);
      });
      if (branch === otherwise) continue;
      this.jump(end);
      code.bind(other);
    }
    code.bind(end);
    const [register = rax] = results;
    pool.claim(register);
    return this.owned(register, 'unknown');
  }

  private arithmetic(value: Arithmetic, op: keyof typeof aluNames): Held {
    const { code } = this;
    const { kind } = value;
    const width = operationWidth(kind);
    if (value.right.op === 'constant' && isImmediate(value.right.value, width)) {
      return this.withImmediate(value.left, op, BigInt.asIntN(width, value.right.value), width);
    }
    const isSwapped = op !== 'subtract' && this.isDirect(value.left) && !this.isDirect(value.right);
    const [left, right] = isSwapped ? [value.right, value.left] : [value.left, value.right];
    if (this.isDirect(right)) {
      const early = this.weight(right) > this.weight(left) ? this.reachLoad(right) : undefined;
      const held = this.own(left);
      this.access(early ?? this.reachLoad(right), (memory) => {
        code.aluLoad(aluNames[op], held.register, memory, width);
      });
      return this.owned(held.register, 'zero');
    }
    const [a, b] = this.inBoth(left, right, (each) => this.evaluate(each));
    return this.combined(op, a, b, width);
  }

  private withImmediate(left: Value, op: keyof typeof aluNames, value: bigint, width: 32 | 64): Held {
    const { code } = this;
    const masked = op === 'and' ? ({ 255: 8, 65535: 16 } as const)[Number(value)] : undefined;
    if (masked === undefined && op !== 'add') {
      const held = this.own(left);
      code.aluImmediate(aluNames[op], held.register, value, width);
      return this.owned(held.register, 'zero');
    }
    const held = this.evaluate(left);
    if (masked === undefined && held.isOwned) {
      code.aluImmediate('add', held.register, value, width);
      return this.owned(held.register, 'zero');
    }
    this.release(held);
    const register = this.pool.take();
    if (masked === undefined) code.lea(register, mem({ base: held.register, disp: Number(value) }));
    else code.zeroExtend(register, held.register, masked);
    return this.owned(register, masked === undefined ? 'unknown' : 'zero and sign');
  }

  /** The result takes the place of an operand that is ours; a sum can be made elsewhere. */
  private combined(op: keyof typeof aluNames, a: Held, b: Held, width: 32 | 64): Held {
    const { code } = this;
    if (!a.isOwned && b.isOwned && op !== 'subtract') return this.combined(op, b, a, width);
    if (a.isOwned) {
      code.alu(aluNames[op], a.register, b.register, width);
      this.release(b);
      return this.owned(a.register, 'zero');
    }
    if (op === 'add') {
      this.release(a, b);
      const register = this.pool.take();
      code.lea(register, mem({ base: a.register, index: b.register }));
      return this.owned(register, 'unknown');
    }
    const register = this.pool.take();
    code.mov(register, a.register, width);
    code.alu(aluNames[op], register, b.register, width);
    this.release(a, b);
    return this.owned(register, 'zero');
  }

  private multiply({ left, right, kind }: Arithmetic): Held {
    const { code } = this;
    const width = operationWidth(kind);
    if (right.op === 'constant' && isImmediate(right.value, width)) {
      const factor = Number(BigInt.asIntN(width, right.value));
      if (this.isDirect(left)) {
        const reached = this.reachLoad(left);
        this.release(...reached.held);
        const register = this.pool.take();
        this.access({ ...reached, held: [] }, (memory) => code.imulImmediate(register, memory, factor, width));
        return this.owned(register, 'zero');
      }
      const held = this.evaluate(left);
      this.release(held);
      const register = this.pool.take();
      const scale = ({ 3: 2, 5: 4, 9: 8 } as const)[factor];
      if (scale === undefined) code.imulImmediate(register, held.register, factor, width);
      else code.lea(register, mem({ base: held.register, index: held.register, scale }));
      return this.owned(register, scale === undefined ? 'zero' : 'unknown');
    }
    const isSwapped = this.isDirect(left) && !this.isDirect(right);
    const [into, by] = isSwapped ? [right, left] : [left, right];
    if (this.isDirect(by)) {
      const early = this.weight(by) > this.weight(into) ? this.reachLoad(by) : undefined;
      const held = this.own(into);
      this.access(early ?? this.reachLoad(by), (memory) => code.imul(held.register, memory, width));
      return this.owned(held.register, 'zero');
    }
    const [a, b] = this.inBoth(into, by, (each) => this.evaluate(each));
    const [to, from] = !a.isOwned && b.isOwned ? [b, a] : [a, b];
    if (to.isOwned) {
      code.imul(to.register, from.register, width);
      this.release(from);
      return this.owned(to.register, 'zero');
    }
    const register = this.pool.take();
    code.mov(register, to.register, width);
    code.imul(register, from.register, width);
    this.release(a, b);
    return this.owned(register, 'zero');
  }

  private shift({ op, left, right, kind }: Arithmetic): Held {
    const { code } = this;
    const width = operationWidth(kind);
    const toTheRight = kind.isSigned ? 'sar' : 'shr';
    const operation = op === 'shift-left' ? 'shl' : op === 'rotate-right' ? 'ror' : toTheRight;
    if (right.op === 'constant') {
      const held = this.own(left);
      const count = Number(BigInt.asUintN(width === 64 ? 6 : 5, right.value));
      if (count !== 0) code.shift(operation, held.register, count, width);
      return this.owned(held.register, 'zero');
    }
    if (this.isDirect(right) && this.weight(right) <= 1 && right.kind.width === 32) {
      const held = this.own(left);
      this.access(this.reachLoad(right), (memory) => code.load(rcx, memory, 32));
      code.shiftByCl(operation, held.register, width);
      return this.owned(held.register, 'zero');
    }
    const isCountFirst = this.weight(right) > this.weight(left);
    const early = isCountFirst ? this.evaluate(right) : undefined;
    const held = this.own(left);
    const count = early ?? this.evaluate(right);
    code.mov(rcx, count.register, 32);
    this.release(count);
    code.shiftByCl(operation, held.register, width);
    return this.owned(held.register, 'zero');
  }
}

/** The registers for two operands, if the one that needs more goes first. */
function joined(a: number, b: number): number {
  return a === b ? a + 1 : Math.max(a, b);
}
