// The types of an expression and what it computes: names looked up, conversions made explicit, constants folded.

import { typeText } from '../binary/type-text.js';
import type { Type } from '../binary/types.js';
import { FastprobeError } from '../errors.js';
import {
  basicTypes,
  commonType,
  integerOf,
  isFloat,
  literalType,
  pointerTo,
  promoted,
  targetOf,
  voidType,
} from './c-types.js';
import { Complaints } from './complaint.js';
import { arithmetic, choose, compare, complement, constant, convert, logic, negate, not } from './fold.js';
import { type Item, Items } from './items.js';
import { differenceOf, movedPointer } from './pointers.js';
import { registerItem } from './register-names.js';
import { enumeratorOf, type Scope } from './scope.js';
import type { BinaryOperator, Expression, Node, Relation, Span } from './tree.js';
import { TypeReader } from './type-reader.js';
import { type ArithmeticOperation, int32, type Value } from './value.js';

/** An expression that is ready to be compiled for one site. */
export interface Typed {
  readonly text: string;
  /** The type of the result, as in C: `int` for a comparison, a pointer for an array. */
  readonly type: Type;
  readonly value: Value;
}

/** Gives every part its type and refuses what C or this language does not allow. The result is a number or a pointer. */
export function check(expression: Expression, scope: Scope): Typed {
  const { text, root } = expression;
  const item = new Checker(new Complaints(text), scope).item(root);
  const value = item.value();
  const target = targetOf(item.type);
  return { text, type: target === undefined ? item.type : pointerTo(target), value };
}

const arithmeticOperations: Readonly<Partial<Record<BinaryOperator, ArithmeticOperation>>> = {
  '*': 'multiply',
  '/': 'divide',
  '%': 'remainder',
  '+': 'add',
  '-': 'subtract',
  '&': 'and',
  '^': 'xor',
  '|': 'or',
  '<<': 'shift-left',
  '>>': 'shift-right',
};

type Of<K extends Node['kind']> = Extract<Node, { kind: K }>;

/** Checks the nodes of one expression. Holds nothing but what it was given. */
class Checker {
  private readonly complaints: Complaints;
  private readonly scope: Scope;
  private readonly items: Items;
  private readonly types: TypeReader;

  constructor(complaints: Complaints, scope: Scope) {
    this.complaints = complaints;
    this.scope = scope;
    this.items = new Items(complaints);
    this.types = new TypeReader(complaints, scope);
  }

  item(node: Node): Item {
    const item = this.made(node);
    // Asked for more than once in nested conditionals: without memory, that would double with each level.
    let known: Value | undefined;
    const value = () => {
      known ??= item.value();
      return known;
    };
    return { ...item, value };
  }

  private made(node: Node): Item {
    const { span } = node;
    switch (node.kind) {
      case 'integer': {
        const type = literalType(node.value, node.isDecimal, node.suffix);
        return this.items.number(type, node.value, span);
      }
      case 'character':
        return this.items.number(basicTypes.int, node.value, span);
      case 'null':
        return this.items.number(pointerTo(voidType), 0n, span);
      case 'name':
        return this.items.variable(this.scope.variable(node.name), span);
      case 'register':
        return registerItem(node.name, span, this.scope, this.items);
      case 'member':
        return this.member(node);
      case 'index':
        return this.index(node);
      case 'unary':
        return this.unary(node);
      case 'cast':
        return this.cast(node);
      case 'sizeof':
      case 'sizeof-type':
        return this.items.number(basicTypes['long unsigned int'], BigInt(this.sizeof(node)), span);
      case 'binary':
        return this.binary(node);
      case 'conditional':
        return this.conditional(node);
    }
  }

  private member({ object, name, isArrow, span }: Of<'member'>): Item {
    const whole = this.item(object);
    const target = targetOf(whole.type);
    if (isArrow) {
      if (target !== undefined) return this.items.member(this.items.pointedTo(whole, object.span), name, span);
      const hint = this.items.isCompound(whole.type) ? `write '.${name}'` : 'only a pointer to a struct can have one';
      throw this.complaints.type(span, `'->' needs a pointer, and this is ${this.described(whole)}`, hint);
    }
    if (target === undefined || !this.items.isCompound(target)) return this.items.member(whole, name, span);
    throw this.complaints.type(span, `'.' needs a struct, and this is ${this.described(whole)}`, `write '->${name}'`);
  }

  private index({ object, index, span }: Of<'index'>): Item {
    const [left, right] = [this.item(object), this.item(index)];
    // C allows 3[a] as well.
    const [pointer, by] = targetOf(left.type) === undefined ? [right, left] : [left, right];
    if (targetOf(pointer.type) === undefined) {
      const hint = 'only an array or a pointer has elements';
      throw this.complaints.type(span, `${this.described(left)} can't be indexed`, hint);
    }
    const sum = movedPointer(this.items, pointer, this.integerOf(by), { sign: 1, span });
    return this.items.pointedTo(sum, span);
  }

  private unary({ operator, operand, span }: Of<'unary'>): Item {
    const item = this.item(operand);
    switch (operator) {
      case '*':
        if (targetOf(item.type) !== undefined) return this.items.pointedTo(item, span);
        throw this.complaints.type(span, `'*' needs a pointer, and this is ${this.described(item)}`, hintCast);
      case '&':
        return this.items.addressOf(item, span);
      case '!':
        return { type: basicTypes.int, span, value: () => not(item.value(), span) };
      default: {
        const integer = this.integerOf(item, operator);
        const type = promoted(integer.integer);
        const value = () => {
          const from = convert(integer.value(), kind(type));
          if (operator === '+') return from;
          return operator === '-' ? negate(from, span) : complement(from, span);
        };
        return { type, span, value };
      }
    }
  }

  private cast({ type: name, operand, span }: Of<'cast'>): Item {
    const type = this.types.read(name);
    const item = this.itemNear(operand, () => type);
    const integer = integerOf(type);
    if (integer === undefined && targetOf(type) === undefined) {
      const hint = 'cast to an integer or pointer type; for a struct, cast its address: *(struct item *)p';
      throw isFloat(type)
        ? this.items.noFloat(span, type)
        : this.complaints.type(name.span, `nothing can be cast to ${typeText(type)}`, hint);
    }
    const value = () => {
      const from = item.value();
      if (integer?.isBool !== true) return convert(from, integer?.kind ?? kind(type), span);
      return convert(compare('!=', from, constant(0n, from.kind, span), span), integer.kind, span);
    };
    return { type, span, value };
  }

  private sizeof(node: Of<'sizeof'> | Of<'sizeof-type'>): number {
    if (node.kind === 'sizeof-type') return this.items.sizeOf(this.types.read(node.type), node.span);
    const { operand } = node;
    if (operand.kind === 'name') {
      const type = this.types.namedWhenNoVariable(operand.name, operand.span);
      if (type !== undefined) return this.items.sizeOf(type, node.span);
    }
    const item = this.item(operand);
    if (item.bits === undefined) return this.items.sizeOf(item.type, node.span);
    throw this.complaints.type(node.span, 'a bit-field has no size in bytes', 'take the size of the struct');
  }

  private binary(node: Of<'binary'>): Item {
    const { operator, span } = node;
    const [left, right] = this.pair(node.left, node.right);
    switch (operator) {
      case '&&':
      case '||': {
        const op = operator === '&&' ? 'both' : 'either';
        return { type: basicTypes.int, span, value: () => logic(op, left.value(), right.value(), span) };
      }
      case '==':
      case '!=':
      case '<':
      case '<=':
      case '>':
      case '>=':
        return this.comparison(operator, left, right, span);
    }
    const [leftTarget, rightTarget] = [targetOf(left.type), targetOf(right.type)];
    if (operator === '+' && (leftTarget === undefined) !== (rightTarget === undefined)) {
      const [pointer, by] = leftTarget === undefined ? [right, left] : [left, right];
      return movedPointer(this.items, pointer, this.integerOf(by, operator), { sign: 1, span });
    }
    if (operator === '-' && leftTarget !== undefined) {
      if (rightTarget !== undefined) return differenceOf(this.items, left, right, span);
      return movedPointer(this.items, left, this.integerOf(right, operator), { sign: -1, span });
    }
    if (operator === '<<' || operator === '>>') return this.shift(operator, left, right, span);
    return this.arithmetic(operator, left, right, span);
  }

  private arithmetic(operator: BinaryOperator, left: Item, right: Item, span: Span): Item {
    const op = arithmeticOperations[operator] ?? 'add';
    const [a, b] = [this.integerOf(left, operator), this.integerOf(right, operator)];
    const type = commonType(a.integer, b.integer);
    const value = () => {
      const to = kind(type);
      const divisor = convert(b.value(), to);
      if ((op === 'divide' || op === 'remainder') && divisor.op === 'constant' && divisor.value === 0n) {
        throw this.complaints.type(right.span, 'this divides by zero', 'divide by something else');
      }
      return arithmetic(op, convert(a.value(), to), divisor, to, span);
    };
    return { type, span, value };
  }

  /** The operands are promoted each by itself; the result has the type of the left one. */
  private shift(operator: '<<' | '>>', left: Item, right: Item, span: Span): Item {
    const [a, b] = [this.integerOf(left, operator), this.integerOf(right, operator)];
    const type = promoted(a.integer);
    const value = () => {
      const to = kind(type);
      const count = b.value();
      if (count.op === 'constant' && (count.value < 0n || count.value >= BigInt(to.width))) {
        const message = `a shift by ${count.value} is not defined for ${to.width} bits`;
        throw this.complaints.type(right.span, message, `shift by 0 to ${to.width - 1}`);
      }
      const op = operator === '<<' ? 'shift-left' : 'shift-right';
      return arithmetic(op, convert(a.value(), to), convert(count, int32), to, span);
    };
    return { type, span, value };
  }

  private comparison(relation: Relation, left: Item, right: Item, span: Span): Item {
    const type = basicTypes.int;
    if (targetOf(left.type) !== undefined || targetOf(right.type) !== undefined) {
      const address = kind(pointerTo(voidType));
      const value = () => compare(relation, convert(left.value(), address), convert(right.value(), address), span);
      return { type, span, value };
    }
    const [a, b] = [this.integerOf(left, relation), this.integerOf(right, relation)];
    const common = kind(commonType(a.integer, b.integer));
    return { type, span, value: () => compare(relation, convert(a.value(), common), convert(b.value(), common), span) };
  }

  private conditional(node: Of<'conditional'>): Item {
    const { span } = node;
    const condition = this.item(node.condition);
    const [then, otherwise] = this.pair(node.then, node.otherwise);
    const type = this.branchType(then, otherwise, span);
    const to = kind(type);
    const value = () => choose(condition.value(), convert(then.value(), to), convert(otherwise.value(), to), span);
    return { type, span, value };
  }

  private branchType(then: Item, otherwise: Item, span: Span): Type {
    const [a, b] = [targetOf(then.type), targetOf(otherwise.type)];
    if (a === undefined && b === undefined) {
      return commonType(this.integerOf(then).integer, this.integerOf(otherwise).integer);
    }
    const isNull = (item: Item) => {
      const value = integerOf(item.type) === undefined ? undefined : item.value();
      return value?.op === 'constant' && value.value === 0n;
    };
    const isVoid = (target: Type) => typeText(target).replace(/^(const |volatile )+/, '') === 'void';
    if (a !== undefined && b !== undefined) {
      // NULL is a void pointer here: the other side tells the type. Otherwise void * wins, as in C.
      if (isVoid(a) !== isVoid(b)) {
        const [typed, plain] = isVoid(a) ? [b, then] : [a, otherwise];
        const value = plain.value();
        return pointerTo(value.op === 'constant' && value.value === 0n ? typed : voidType);
      }
      return pointerTo(a);
    }
    if (a !== undefined && isNull(otherwise)) return pointerTo(a);
    if (b !== undefined && isNull(then)) return pointerTo(b);
    const message = `the branches of '?:' don't fit: ${typeText(then.type)} and ${typeText(otherwise.type)}`;
    throw this.complaints.type(span, message, 'cast one of them');
  }

  // --- pieces of the above

  /** Two operands. A name that is no variable may be an enumerator of the other one's type: `state == RUNNING`. */
  private pair(left: Node, right: Node): [Item, Item] {
    if (left.kind !== 'name') {
      const first = this.item(left);
      return [first, this.itemNear(right, () => first.type)];
    }
    const second = right.kind === 'name' ? this.itemIfKnown(right) : this.item(right);
    // If both are names of nothing, it is the left one that is complained of.
    const first = this.itemNear(left, () => second?.type);
    return [first, second ?? this.itemNear(right, () => first.type)];
  }

  private itemIfKnown(node: Node): Item | undefined {
    try {
      return this.item(node);
    } catch (error) {
      if (isUnknown(error)) return undefined;
      throw error;
    }
  }

  private itemNear(node: Node, type: () => Type | undefined): Item {
    if (node.kind !== 'name') return this.item(node);
    try {
      return this.item(node);
    } catch (error) {
      if (!isUnknown(error)) throw error;
      const near = type();
      const value = near && enumeratorOf(near, node.name);
      if (value === undefined) throw error;
      const fitsInt = value === BigInt.asIntN(32, value);
      return this.items.number(fitsInt ? basicTypes.int : (near ?? basicTypes.int), value, node.span);
    }
  }

  private integerOf(item: Item, operator?: string) {
    return this.items.integerOf(item, operator);
  }

  private described(item: Item): string {
    return `${this.complaints.at(item.span)} (${typeText(item.type)})`;
  }
}

const hintCast = 'cast it to a pointer type: *(int *)x';

function isUnknown(error: unknown): boolean {
  return error instanceof FastprobeError && error.code === 'FASTPROBE_VARIABLE_UNKNOWN';
}

function kind(type: Type) {
  return integerOf(type)?.kind ?? { width: 64, isSigned: false };
}
