// Captured values: from the 64 bits that a trampoline stored to what their type says they are.

import { strip } from '../binary/type-text.js';
import type { Type } from '../binary/types.js';
import { integerOf } from '../lang/c-types.js';

/**
 * An integer is a number, or a bigint when a number would lose digits; a bool is a boolean; a pointer is a text such as
 * `0x7ffe12`; null stands for what could not be read.
 */
export type CapturedValue = number | bigint | boolean | string | null;

/** `bits` as a value of `type`; the trampoline has extended it to 64 bits as the type asks. */
export function decodeValue(type: Type, bits: bigint): CapturedValue {
  const integer = integerOf(type);
  if (integer === undefined) return `0x${bits.toString(16)}`;
  if (integer.isBool) return bits !== 0n;
  const value = integer.kind.isSigned ? BigInt.asIntN(64, bits) : bits;
  const isSafe = value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER;
  return isSafe ? Number(value) : value;
}

/** A value for people: enumerators by name, characters beside their numbers. */
export function formatValue(type: Type, value: CapturedValue): string {
  if (value === null) return '(unreadable)';
  const inner = strip(type);
  if (inner.kind === 'enum') {
    return inner.enumerators.find((each) => each.value === BigInt(value))?.name ?? String(value);
  }
  const isCharacter = inner.kind === 'base' && inner.encoding.endsWith('char') && inner.size === 1;
  if (isCharacter && typeof value === 'number' && value >= 32 && value < 127) {
    return `${value} '${String.fromCharCode(value)}'`;
  }
  return String(value);
}
