// Division by constants: the multiplications that replace it, against the quotients themselves.

import { describe, expect, it } from 'vitest';
import { inverse, multipleTest, reciprocalOf } from '../../src/lang/divisors.js';
import type { Kind } from '../../src/lang/value.js';
import { rounds } from '../support/length.js';
import { Random } from './random.js';

const span = { start: 0, end: 0 };
const kinds: readonly Kind[] = [32, 64].flatMap((width) =>
  [true, false].map((isSigned) => ({ width: width as 32 | 64, isSigned })),
);
const wrap = (value: bigint, { width, isSigned }: Kind) =>
  isSigned ? BigInt.asIntN(width, value) : BigInt.asUintN(width, value);

/** Numbers around the multiples of a divisor and around the ends of the range. */
function numerators(divisor: bigint, kind: Kind, random: Random): bigint[] {
  const top = 1n << BigInt(kind.isSigned ? kind.width - 1 : kind.width);
  const middles = [0n, top, -top, top - (top % divisor), divisor * (random.bits() % 1000n), random.bits()];
  return middles.flatMap((middle) => [-1n, 0n, 1n].map((step) => wrap(middle + step, kind)));
}

describe('constants', () => {
  const count = rounds({ short: 2000, long: 50_000 });

  it(`divide as division does, ${count} of them`, () => {
    const random = new Random(7);
    const wrong: string[] = [];
    let tried = 0;
    for (let round = 0; round < count; round++) {
      const kind = kinds[round % 2] as Kind;
      const value = wrap(random.bits(), kind);
      const reciprocal = reciprocalOf({ op: 'constant', value, kind, span });
      if (reciprocal === undefined) continue;
      tried++;
      for (const each of numerators(value, kind, random)) {
        const product = wrap(each * reciprocal.factor, { width: 64, isSigned: kind.isSigned });
        const quotient = (product >> BigInt(reciprocal.shift)) + (each < 0n ? 1n : 0n);
        if (product !== each * reciprocal.factor || quotient !== each / value) wrong.push(`${each} / ${value}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(tried).toBeGreaterThan(count / 5);
  });

  it(`tell their multiples, ${count} of them`, () => {
    const random = new Random(8);
    const wrong: string[] = [];
    for (let round = 0; round < count; round++) {
      const kind = kinds[round % kinds.length] as Kind;
      const divisor = wrap(random.bits(), kind);
      const size = divisor < 0n ? -divisor : divisor;
      if (size === 0n || (size & (size - 1n)) === 0n) continue;
      const { factor, addend, rotation, limit } = multipleTest(divisor, kind);
      const unsigned = { width: kind.width, isSigned: false };
      for (const each of numerators(size, kind, random)) {
        const sum = wrap(each * factor + addend, unsigned);
        const turned = wrap((sum >> BigInt(rotation)) | (sum << BigInt(kind.width - rotation)), unsigned);
        if (turned <= limit !== (each % divisor === 0n)) wrong.push(`${each} % ${divisor}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it('have inverses', () => {
    for (const odd of [1n, 3n, 5n, 641n, 0xffffffffn]) expect(BigInt.asUintN(64, odd * inverse(odd))).toBe(1n);
  });
});
