// What an expression computes, in the machine's terms: integers of a width and sign, places in memory, explicit conversions.

import type { Address } from '../address.js';
import type { Register, Width } from '../isa/registers.js';
import type { Relation, Span } from './tree.js';

/** An integer as the machine sees it. Pointers are unsigned and 64 bits wide. */
export interface Kind {
  readonly width: Width;
  readonly isSigned: boolean;
}

export const int32: Kind = { width: 32, isSigned: true };
export const int64: Kind = { width: 64, isSigned: true };
export const pointerKind: Kind = { width: 64, isSigned: false };

/** A variable, or a part of it, in a register of the target; `offset` counts bytes from the lowest. */
export interface RegisterPlace {
  readonly in: 'register';
  readonly register: Register;
  readonly offset: number;
}

/** A place in memory: `base + index * scale + offset`. */
export interface MemoryPlace {
  readonly in: 'memory';
  readonly base:
    | { readonly from: 'frame'; readonly register: Register }
    /** A file address: the load bias comes on top. */
    | { readonly from: 'file'; readonly address: Address }
    | { readonly from: 'pointer'; readonly value: Value };
  readonly index: { readonly value: Value; readonly scale: 1 | 2 | 4 | 8 } | undefined;
  /** Fits 32 bits, signed. */
  readonly offset: number;
  /** True if a load cannot fault: it is inside a variable whose place is known. */
  readonly isSafe: boolean;
}

export type Place = RegisterPlace | MemoryPlace;

export type ArithmeticOperation =
  | 'add'
  | 'subtract'
  | 'multiply'
  | 'divide'
  | 'remainder'
  | 'and'
  | 'or'
  | 'xor'
  | 'shift-left'
  | 'shift-right'
  /** By a constant, of an unsigned number. */
  | 'rotate-right';

export interface Constant {
  readonly op: 'constant';
  readonly value: bigint;
  readonly kind: Kind;
  readonly span: Span;
}

export interface Load {
  readonly op: 'load';
  readonly place: Place;
  readonly kind: Kind;
  readonly span: Span;
}

export interface Arithmetic {
  readonly op: ArithmeticOperation;
  /** Both of the operation's kind, but for a shift, whose count is 32 bits wide. */
  readonly left: Value;
  readonly right: Value;
  readonly kind: Kind;
  readonly span: Span;
}

export interface Compare {
  readonly op: 'compare';
  readonly relation: Relation;
  /** Both of one kind. */
  readonly left: Value;
  readonly right: Value;
  readonly kind: Kind;
  readonly span: Span;
}

/** A computation. What is 8 or 16 bits wide was loaded or converted: arithmetic is on 32 and 64 bits, as in C. */
export type Value =
  | Constant
  | Load
  | { readonly op: 'address'; readonly place: MemoryPlace; readonly kind: Kind; readonly span: Span }
  | { readonly op: 'convert'; readonly operand: Value; readonly kind: Kind; readonly span: Span }
  | { readonly op: 'negate' | 'complement'; readonly operand: Value; readonly kind: Kind; readonly span: Span }
  | Arithmetic
  | Compare
  /** Truth: 1 if the operand is 0. */
  | { readonly op: 'not'; readonly operand: Value; readonly kind: Kind; readonly span: Span }
  | {
      readonly op: 'both' | 'either';
      readonly left: Value;
      readonly right: Value;
      readonly kind: Kind;
      readonly span: Span;
    }
  | {
      readonly op: 'choose';
      readonly condition: Value;
      readonly then: Value;
      readonly otherwise: Value;
      readonly kind: Kind;
      readonly span: Span;
    };

/** The values directly inside one, in no particular order. */
export function partsOf(value: Value): readonly Value[] {
  switch (value.op) {
    case 'constant':
      return [];
    case 'load':
    case 'address':
      return value.place.in === 'register' ? [] : partsOfPlace(value.place);
    case 'convert':
    case 'negate':
    case 'complement':
    case 'not':
      return [value.operand];
    case 'choose':
      return [value.condition, value.then, value.otherwise];
    default:
      return [value.left, value.right];
  }
}

function partsOfPlace({ base, index }: MemoryPlace): readonly Value[] {
  return [...(base.from === 'pointer' ? [base.value] : []), ...(index === undefined ? [] : [index.value])];
}

/** Calls `visit` for the value and all inside it. */
export function walk(value: Value, visit: (each: Value) => void): void {
  visit(value);
  for (const part of partsOf(value)) walk(part, visit);
}
