// The types of C as the language uses them: what is an integer or a pointer, and the conversions that operators make.

import { sizeOf, strip } from '../binary/type-text.js';
import type { BaseType, Encoding, PointerType, Type } from '../binary/types.js';
import type { Width } from '../isa/registers.js';
import { type Kind, pointerKind } from './value.js';

function base(name: string, size: number, encoding: Encoding): BaseType {
  return { kind: 'base', name, size, encoding };
}

/** The types that the language itself makes, whether or not the program has them; LP64, as on x86-64 Linux. */
export const basicTypes = {
  _Bool: base('_Bool', 1, 'boolean'),
  char: base('char', 1, 'signed-char'),
  'signed char': base('signed char', 1, 'signed-char'),
  'unsigned char': base('unsigned char', 1, 'unsigned-char'),
  'short int': base('short int', 2, 'signed'),
  'short unsigned int': base('short unsigned int', 2, 'unsigned'),
  int: base('int', 4, 'signed'),
  'unsigned int': base('unsigned int', 4, 'unsigned'),
  'long int': base('long int', 8, 'signed'),
  'long unsigned int': base('long unsigned int', 8, 'unsigned'),
  'long long int': base('long long int', 8, 'signed'),
  'long long unsigned int': base('long long unsigned int', 8, 'unsigned'),
  float: base('float', 4, 'float'),
  double: base('double', 8, 'float'),
  'long double': base('long double', 16, 'float'),
} as const;

export const voidType: Type = { kind: 'void' };

export function isBasicName(name: string): name is keyof typeof basicTypes {
  return Object.hasOwn(basicTypes, name);
}

/** What the usual headers call the basic types, for programs whose debug information lacks the name. */
export const headerTypes: Readonly<Record<string, BaseType>> = {
  size_t: basicTypes['long unsigned int'],
  ssize_t: basicTypes['long int'],
  ptrdiff_t: basicTypes['long int'],
  intptr_t: basicTypes['long int'],
  uintptr_t: basicTypes['long unsigned int'],
  int8_t: basicTypes['signed char'],
  uint8_t: basicTypes['unsigned char'],
  int16_t: basicTypes['short int'],
  uint16_t: basicTypes['short unsigned int'],
  int32_t: basicTypes.int,
  uint32_t: basicTypes['unsigned int'],
  int64_t: basicTypes['long int'],
  uint64_t: basicTypes['long unsigned int'],
};

export function pointerTo(target: Type): PointerType {
  return { kind: 'pointer', size: 8, target };
}

export function arrayOf(element: Type, count: number): Type {
  const each = sizeOf(element);
  return { kind: 'array', element, count, size: each === undefined ? undefined : each * count };
}

/** An integer type; an enumeration is one too. */
export interface Integer {
  readonly kind: Kind;
  readonly isBool: boolean;
  /** `long long` outranks `long`, though both have 64 bits. */
  readonly rank: number;
}

const widths: Readonly<Record<number, Width>> = { 1: 8, 2: 16, 4: 32, 8: 64 };

/** Undefined for what is no integer, or one wider than 64 bits. */
export function integerOf(type: Type): Integer | undefined {
  const inner = strip(type);
  if (inner.kind !== 'base' && inner.kind !== 'enum') return undefined;
  const width = widths[inner.size];
  if (width === undefined) return undefined;
  if (inner.kind === 'enum') return { kind: { width, isSigned: inner.isSigned }, isBool: false, rank: inner.size };
  const isLongLong = inner.name.includes('long long');
  const rank = isLongLong ? 9 : inner.size;
  switch (inner.encoding) {
    case 'signed':
    case 'signed-char':
      return { kind: { width, isSigned: true }, isBool: false, rank };
    case 'unsigned':
    case 'unsigned-char':
    case 'utf':
      return { kind: { width, isSigned: false }, isBool: false, rank };
    case 'boolean':
      return { kind: { width, isSigned: false }, isBool: true, rank };
    default:
      return undefined;
  }
}

/** What a pointer points to, or an array consists of: an array becomes a pointer where a value is wanted. */
export function targetOf(type: Type): Type | undefined {
  const inner = strip(type);
  if (inner.kind === 'pointer') return inner.target;
  if (inner.kind === 'array') return inner.element;
  // std::nullptr_t
  return inner.kind === 'base' && inner.encoding === 'address' ? voidType : undefined;
}

/** How a value of the type is held; undefined for what is no integer or pointer. */
export function kindOf(type: Type): Kind | undefined {
  return targetOf(type) === undefined ? integerOf(type)?.kind : pointerKind;
}

export function isFloat(type: Type): boolean {
  const inner = strip(type);
  return inner.kind === 'base' && (inner.encoding === 'float' || inner.encoding === 'complex');
}

/** The integer promotion: everything narrower than int becomes int. */
export function promoted(integer: Integer): BaseType {
  if (integer.kind.width < 32) return basicTypes.int;
  return typeOfRank(integer.rank, integer.kind.isSigned);
}

/** The usual arithmetic conversions of two integers. */
export function commonType(a: Integer, b: Integer): BaseType {
  const rank = Math.max(a.rank, b.rank, 4);
  // Unsigned wins if it is at least as wide: an unsigned int does fit a long, an unsigned long does not fit a long long.
  const top = [a, b].filter((each) => each.rank === rank);
  const lower = [a, b].find((each) => each.rank < rank);
  if (top.some((each) => !each.kind.isSigned)) return typeOfRank(rank, false);
  const fits = lower === undefined || lower.kind.isSigned || lower.kind.width < width(rank);
  return typeOfRank(rank, fits);
}

function width(rank: number): number {
  return rank >= 8 ? 64 : rank * 8;
}

function typeOfRank(rank: number, isSigned: boolean): BaseType {
  if (rank === 4) return isSigned ? basicTypes.int : basicTypes['unsigned int'];
  if (rank === 8) return isSigned ? basicTypes['long int'] : basicTypes['long unsigned int'];
  return isSigned ? basicTypes['long long int'] : basicTypes['long long unsigned int'];
}

/** The type of a literal: the first that holds it, of the list that its form allows. */
export function literalType(
  value: bigint,
  isDecimal: boolean,
  { isUnsigned, longs }: { readonly isUnsigned: boolean; readonly longs: 0 | 1 | 2 },
): BaseType {
  const ranks = longs === 2 ? [9] : longs === 1 ? [8] : [4, 8];
  for (const rank of ranks) {
    const bits = BigInt(width(rank));
    if (!isUnsigned && value < 1n << (bits - 1n)) return typeOfRank(rank, true);
    if ((isUnsigned || !isDecimal) && value < 1n << bits) return typeOfRank(rank, false);
  }
  return typeOfRank(longs === 2 ? 9 : 8, false);
}
