// Division by constants without dividing: what takes the processor tens of cycles becomes a multiplication.

import type { Kind, Value } from './value.js';

/** The exponent of a power of two, or undefined. */
export function exponentOf(value: bigint): number | undefined {
  return value > 0n && (value & (value - 1n)) === 0n ? value.toString(2).length - 1 : undefined;
}

/** The exponent of a constant power of two from 2 to 2^30, by which signed numbers are divided with shifts and masks. */
export function powerOfTwo(value: Value): number | undefined {
  const exponent = value.op === 'constant' ? exponentOf(value.value) : undefined;
  return exponent !== undefined && exponent > 0 && exponent <= 30 ? exponent : undefined;
}

/** The number whose product with an odd one is 1 modulo 2^64, by Newton's iteration: each step doubles the right bits. */
export function inverse(odd: bigint): bigint {
  let guess = odd;
  for (let bits = 3; bits < 64; bits *= 2) guess = BigInt.asUintN(64, guess * (2n - odd * guess));
  return guess;
}

/** How often two divides a number that is not zero. */
export function twosIn(value: bigint): number {
  return (value & -value).toString(2).length - 1;
}

/**
 * `x % divisor == 0` without division: exactly then `rotateRight(x * factor + addend, rotation) <= limit`, all unsigned
 * (Hacker's Delight, 10-17). Not for powers of two, which a mask can tell.
 */
export function multipleTest(divisor: bigint, { width, isSigned }: Kind) {
  const positive = divisor < 0n ? -divisor : divisor;
  const rotation = twosIn(positive);
  const odd = positive >> BigInt(rotation);
  const factor = inverse(odd);
  if (!isSigned) return { factor, addend: 0n, rotation, limit: ((1n << BigInt(width)) - 1n) / positive };
  const half = ((1n << BigInt(width - 1)) - 1n) / odd;
  const addend = half - (half & ((1n << BigInt(rotation)) - 1n));
  return { factor, addend, rotation, limit: (2n * addend) >> BigInt(rotation) };
}

/** A quotient of 32 bits is the high part of a product: `x * factor >> shift`, and 1 more for a negative x. */
export interface Reciprocal {
  /** Less than 2^32: the product with a number of 32 bits fits 64. */
  readonly factor: bigint;
  readonly shift: number;
}

/** The reciprocal of a constant, if there is one: for 32 bits, positive, and no power of two. */
export function reciprocalOf(divisor: Value): Reciprocal | undefined {
  if (divisor.op !== 'constant' || divisor.kind.width !== 32) return undefined;
  const { value, kind } = divisor;
  if (value < 3n || exponentOf(value) !== undefined) return undefined;
  const bits = value.toString(2).length;
  // Granlund and Montgomery, "Division by invariant integers using multiplication", figures 4.1 and 5.2.
  const shift = (kind.isSigned ? 31 : 32) + bits;
  for (let smaller = 32; smaller <= shift; smaller++) {
    const factor = (1n << BigInt(smaller)) / value + 1n;
    const excess = factor * value - (1n << BigInt(smaller));
    const isExact = excess <= 1n << BigInt(smaller - (kind.isSigned ? 31 : 32));
    if (isExact && factor < 1n << 32n) return { factor, shift: smaller };
  }
  return undefined;
}
