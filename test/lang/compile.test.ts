// Compiled expressions against gcc: real machine code over real variables, in values, sizes and signs.

import { describe, expect, it } from 'vitest';
import { FastprobeError } from '../../src/errors.js';
import { check } from '../../src/lang/check.js';
import { parse } from '../../src/lang/parse.js';
import { rounds } from '../support/length.js';
import { type Build, buildProgram, compareWithGcc, scopeOf } from './oracle.js';
import { Random, Writer } from './random.js';

const builds: readonly Build[] = [
  { name: 'gcc -O0', compiler: 'gcc', flags: ['-O0', '-no-pie'], codeAt: () => 0x2000_0000n },
  { name: 'gcc -O2', compiler: 'gcc', flags: ['-O2', '-no-pie'], codeAt: () => 0x10_0000_0000n },
  { name: 'gcc -O2 PIE, code near', compiler: 'gcc', flags: ['-O2', '-pie'], codeAt: (start) => start - 0x1000_0000n },
  { name: 'gcc -O1 PIE, code far', compiler: 'gcc', flags: ['-O1', '-pie'], codeAt: () => 0x10_0000_0000n },
];

/** Not tested against gcc: variables that are not there in this build, and what C leaves undefined. */
function isLeftOut(error: unknown): boolean {
  if (!(error instanceof FastprobeError)) return false;
  return error.code === 'FASTPROBE_OPTIMISED_OUT' || /divides by zero|a shift by/.test(error.message);
}

/** Random expressions that can be compiled for the build. */
function expressionsFor(build: Build, seed: number, count: number): string[] {
  const writer = new Writer(new Random(seed));
  const { scope } = scopeOf(buildProgram(['0'], build, `empty-${seed}`));
  const expressions: string[] = [];
  while (expressions.length < count) {
    const text = writer.expression();
    try {
      check(parse(text, scope), scope);
      expressions.push(text);
    } catch (error) {
      if (!isLeftOut(error)) throw error;
    }
  }
  return expressions;
}

describe('random expressions give what gcc gives', () => {
  const count = rounds({ short: 400, long: 5000 });
  for (const [index, build] of builds.entries()) {
    it(`${build.name}: ${count} expressions`, { timeout: 300_000 }, async () => {
      const expressions = expressionsFor(build, 1000 + index, count);
      const program = buildProgram(expressions, build, `random-${index}`);
      const { problems, compared } = await compareWithGcc(program, expressions, build, { seed: index, sets: 4 });
      expect(problems.slice(0, 10)).toEqual([]);
      expect(compared).toBe(count * 4);
    });
  }
});
