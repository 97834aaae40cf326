// Makes values, computing at once what is known and choosing the simpler of equal forms.

import { exponentOf, multipleTest } from './divisors.js';
import type { Relation, Span } from './tree.js';
import {
  type Arithmetic,
  type ArithmeticOperation,
  type Constant,
  int32,
  type Kind,
  type MemoryPlace,
  pointerKind,
  type Value,
} from './value.js';

/** A number as a kind holds it: cut to its width, read with its sign. */
export function wrap(value: bigint, kind: Kind): bigint {
  return kind.isSigned ? BigInt.asIntN(kind.width, value) : BigInt.asUintN(kind.width, value);
}

export function constant(value: bigint, kind: Kind, span: Span): Constant {
  return { op: 'constant', value: wrap(value, kind), kind, span };
}

function sameKind(a: Kind, b: Kind): boolean {
  return a.width === b.width && a.isSigned === b.isSigned;
}

export function convert(operand: Value, kind: Kind, span: Span = operand.span): Value {
  if (sameKind(operand.kind, kind)) return operand;
  if (operand.op === 'constant') return constant(operand.value, kind, span);
  // The low bytes come first in memory and in registers: a narrower load reads just what is kept.
  if (operand.op === 'load' && kind.width <= operand.kind.width) return { ...operand, kind };
  if (operand.op === 'convert') {
    const { operand: inner } = operand;
    const keepsValue = operand.kind.width > inner.kind.width && (!inner.kind.isSigned || operand.kind.isSigned);
    if (kind.width <= operand.kind.width || keepsValue) return convert(inner, kind, span);
  }
  if (kind.width === operand.kind.width && signless.includes(operand.op)) return { ...operand, kind, span };
  return { op: 'convert', operand, kind, span };
}

/** What gives the same bits whether signed or not. */
const signless: readonly Value['op'][] = [
  ...(['add', 'subtract', 'multiply', 'and', 'or', 'xor', 'shift-left'] as const),
  ...(['negate', 'complement', 'address'] as const),
];

export function negate(operand: Value, span: Span): Value {
  const { kind } = operand;
  if (operand.op === 'constant') return constant(-operand.value, kind, span);
  return { op: 'negate', operand, kind, span };
}

export function complement(operand: Value, span: Span): Value {
  const { kind } = operand;
  if (operand.op === 'constant') return constant(~operand.value, kind, span);
  return { op: 'complement', operand, kind, span };
}

const commutative: readonly ArithmeticOperation[] = ['add', 'multiply', 'and', 'or', 'xor'];

/** Both operands are of the kind, but a shift's count. Division by a constant zero is the caller's to refuse. */
export function arithmetic(op: ArithmeticOperation, left: Value, right: Value, kind: Kind, span: Span): Value {
  if (left.op === 'constant' && right.op === 'constant') {
    const result = compute(op, left.value, right.value, kind);
    if (result !== undefined) return constant(result, kind, span);
  }
  if (left.op === 'constant' && commutative.includes(op)) return arithmetic(op, right, left, kind, span);
  if (right.op === 'constant') return withConstant(op, left, right, kind, span);
  return { op, left, right, kind, span };
}

function withConstant(op: ArithmeticOperation, left: Value, right: Constant, kind: Kind, span: Span): Value {
  const { value } = right;
  const by = (exponent: number) => constant(BigInt(exponent), int32, right.span);
  const exponent = exponentOf(value);
  switch (op) {
    case 'add':
    case 'or':
    case 'xor':
    case 'shift-left':
    case 'shift-right':
    case 'rotate-right':
      if (value === 0n) return { ...left, span };
      break;
    case 'subtract':
      return arithmetic('add', left, constant(-value, kind, right.span), kind, span);
    case 'multiply':
      if (value === 1n) return { ...left, span };
      if (exponent !== undefined) return { op: 'shift-left', left, right: by(exponent), kind, span };
      break;
    case 'divide':
      if (value === 1n) return { ...left, span };
      // Wraps like all arithmetic here; only a variable -1 is taken for the mistake that it is in C.
      if (value === -1n) return negate(left, span);
      if (exponent !== undefined && !kind.isSigned) return { op: 'shift-right', left, right: by(exponent), kind, span };
      break;
    case 'remainder':
      if (value === 1n || value === -1n) return constant(0n, kind, span);
      if (exponent !== undefined && !kind.isSigned) {
        return arithmetic('and', left, constant(value - 1n, kind, right.span), kind, span);
      }
      break;
    case 'and':
      if (wrap(value, { width: kind.width, isSigned: true }) === -1n) return { ...left, span };
      break;
  }
  return { op, left, right, kind, span };
}

function compute(op: ArithmeticOperation, left: bigint, right: bigint, kind: Kind): bigint | undefined {
  const count = BigInt.asUintN(kind.width === 64 ? 6 : 5, right);
  switch (op) {
    case 'add':
      return left + right;
    case 'subtract':
      return left - right;
    case 'multiply':
      return left * right;
    case 'divide':
      return right === 0n || wrap(left / right, kind) !== left / right ? undefined : left / right;
    case 'remainder':
      return right === 0n || wrap(left / right, kind) !== left / right ? undefined : left % right;
    case 'and':
      return left & right;
    case 'or':
      return left | right;
    case 'xor':
      return left ^ right;
    case 'shift-left':
      return left << count;
    case 'shift-right':
      return left >> count;
    case 'rotate-right':
      return undefined;
  }
}

const mirrored: Readonly<Record<Relation, Relation>> = {
  '==': '==',
  '!=': '!=',
  '<': '>',
  '<=': '>=',
  '>': '<',
  '>=': '<=',
};

function holds(relation: Relation, left: bigint, right: bigint): boolean {
  switch (relation) {
    case '==':
      return left === right;
    case '!=':
      return left !== right;
    case '<':
      return left < right;
    case '<=':
      return left <= right;
    case '>':
      return left > right;
    case '>=':
      return left >= right;
  }
}

/** A constant, if there is one, comes to the right. */
export function compare(relation: Relation, left: Value, right: Value, span: Span): Value {
  if (left.op === 'constant') {
    if (right.op === 'constant') return constant(holds(relation, left.value, right.value) ? 1n : 0n, int32, span);
    return compare(mirrored[relation], right, left, span);
  }
  const isEquality = relation === '==' || relation === '!=';
  if (isEquality && right.op === 'constant' && right.value === 0n && left.op === 'remainder') {
    const test = compareMultiple(relation, left, span);
    if (test !== undefined) return test;
  }
  return { op: 'compare', relation, left, right, kind: int32, span };
}

/** `x % 1000 == 0`, the usual way to look at one in a thousand, without a division. */
function compareMultiple(relation: '==' | '!=', { left, right, kind }: Arithmetic, span: Span): Value | undefined {
  if (right.op !== 'constant' || right.value === 0n) return undefined;
  const unsigned = { width: kind.width, isSigned: false };
  const of = (value: bigint) => constant(value, unsigned, right.span);
  const number = convert(left, unsigned);
  const size = right.value < 0n ? -right.value : right.value;
  const exponent = exponentOf(size);
  if (exponent !== undefined) {
    // A multiple of a power of two has zeros below, whatever its sign.
    const bits = arithmetic('and', number, of((1n << BigInt(exponent)) - 1n), unsigned, span);
    return compare(relation, bits, of(0n), span);
  }
  const { factor, addend, rotation, limit } = multipleTest(right.value, kind);
  const product = arithmetic('multiply', number, of(factor), unsigned, span);
  const sum = arithmetic('add', product, of(addend), unsigned, span);
  const turned = arithmetic('rotate-right', sum, constant(BigInt(rotation), int32, right.span), unsigned, span);
  return compare(relation === '==' ? '<=' : '>', turned, of(limit), span);
}

/** 1 if the value is not 0. */
export function truth(value: Value, span: Span): Value {
  const isTruth = ['compare', 'not', 'both', 'either'].includes(value.op);
  return isTruth ? value : compare('!=', value, constant(0n, value.kind, span), span);
}

export function not(operand: Value, span: Span): Value {
  if (operand.op === 'constant') return constant(operand.value === 0n ? 1n : 0n, int32, span);
  if (operand.op === 'remainder') return compare('==', operand, constant(0n, operand.kind, span), span);
  return { op: 'not', operand, kind: int32, span };
}

/** The right side is evaluated only if the left does not decide. */
export function logic(op: 'both' | 'either', left: Value, right: Value, span: Span): Value {
  if (left.op !== 'constant') return { op, left, right, kind: int32, span };
  const decides = (left.value === 0n) === (op === 'both');
  return decides ? constant(op === 'both' ? 0n : 1n, int32, span) : truth(right, span);
}

/** Both branches are of one kind. */
export function choose(condition: Value, then: Value, otherwise: Value, span: Span): Value {
  if (condition.op === 'constant') return condition.value === 0n ? otherwise : then;
  return { op: 'choose', condition, then, otherwise, kind: then.kind, span };
}

// --- places

/** What a pointer points to. */
export function pointedTo(pointer: Value): MemoryPlace {
  if (pointer.op === 'address') return pointer.place;
  if (pointer.op === 'load' && pointer.place.in === 'register' && pointer.place.offset === 0) {
    const base = { from: 'frame', register: pointer.place.register } as const;
    return { in: 'memory', base, index: undefined, offset: 0, isSafe: false };
  }
  if (pointer.op === 'add' && pointer.right.op === 'constant') {
    return moved(pointedTo(pointer.left), BigInt.asIntN(64, pointer.right.value), false, pointer.span);
  }
  return { in: 'memory', base: { from: 'pointer', value: pointer }, index: undefined, offset: 0, isSafe: false };
}

export function addressOf(place: MemoryPlace, span: Span): Value {
  const { base, index, offset } = place;
  if (base.from === 'pointer' && index === undefined && offset === 0) return { ...base.value, span };
  return { op: 'address', place, kind: pointerKind, span };
}

/** The place `bytes` further on; `isSafe` tells whether it is known to be inside the same variable. */
export function moved(place: MemoryPlace, bytes: bigint, isSafe: boolean, span: Span): MemoryPlace {
  const offset = BigInt(place.offset) + bytes;
  const stays = place.isSafe && isSafe;
  if (offset === BigInt.asIntN(32, offset)) return { ...place, offset: Number(offset), isSafe: stays };
  const whole = arithmetic('add', addressOf(place, span), constant(bytes, pointerKind, span), pointerKind, span);
  return { ...pointedToBy(whole), isSafe: stays };
}

/** The place of element `index` (64 bits wide) of elements of `size` bytes. */
export function indexed(place: MemoryPlace, index: Value, size: number, span: Span): MemoryPlace {
  const from = place.index === undefined ? place : pointedToBy(addressOf(place, span));
  if (size === 1 || size === 2 || size === 4 || size === 8) {
    return { ...from, index: { value: index, scale: size }, isSafe: false };
  }
  const bytes = arithmetic('multiply', index, constant(BigInt(size), index.kind, span), index.kind, span);
  return { ...from, index: { value: bytes, scale: 1 }, isSafe: false };
}

/** As {@link pointedTo}, but with the address computed by itself: an operand has room for one index. */
function pointedToBy(address: Value): MemoryPlace {
  return { in: 'memory', base: { from: 'pointer', value: address }, index: undefined, offset: 0, isSafe: false };
}
