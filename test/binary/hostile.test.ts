// Damaged files: cut off, with flipped bits, with random numbers in their headers. Only our own errors, and soon.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { Binary, openBinary } from '../../src/binary/binary.js';
import { Elf } from '../../src/binary/elf.js';
import { sizeOf, strip, typeText } from '../../src/binary/type-text.js';
import type { Type } from '../../src/binary/types.js';
import { FastprobeError } from '../../src/errors.js';
import { compile, compileC, flagsOf, folder, programs, run, type Variant } from './compile.js';

const seed = Number(process.env.FASTPROBE_SEED ?? 20240229);
const copies = Number(process.env.FASTPROBE_HOSTILE ?? 100);
const longest = 1000;

/** Marsaglia's xorshift: the same numbers each time for one seed. */
function random(from: number): (below: number) => number {
  let state = from | 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** Lets only errors of ours pass, and counts them. */
function attempt<T>(ask: () => T, errors: Map<string, number>): T | undefined {
  try {
    return ask();
  } catch (error) {
    if (!(error instanceof FastprobeError)) throw error;
    errors.set(error.code, (errors.get(error.code) ?? 0) + 1);
    return undefined;
  }
}

/** Looks at every part of a type down to some depth, as someone who prints it would. */
function explore(type: Type, depth: number): void {
  sizeOf(type);
  typeText(type);
  const inner = strip(type);
  if (depth === 0) return;
  if ('target' in inner) explore(inner.target, depth - 1);
  if (inner.kind === 'array') explore(inner.element, depth - 1);
  if (inner.kind === 'enum') expect(inner.enumerators.length + Number(inner.isSigned)).toBeGreaterThanOrEqual(0);
  if (inner.kind === 'struct' || inner.kind === 'union' || inner.kind === 'class') {
    for (const member of inner.members) explore(member.type, depth - 1);
    for (const base of inner.bases) explore(base.type, depth - 1);
  }
}

/** Asks of a file all that can be asked, on the lines, names and addresses that the whole one has. */
function interrogate(bytes: Uint8Array, places: readonly bigint[], names: readonly string[]): Map<string, number> {
  const errors = new Map<string, number>();
  const elf = attempt(() => new Elf(bytes, 'damaged'), errors);
  if (elf === undefined) return errors;
  const binary = new Binary(elf, { root: '/', directories: [] });
  const ask = <T>(question: () => T) => attempt(question, errors);
  ask(() => binary.symbols.list());
  for (const line of [1, 30, 60, 90]) {
    for (const file of ['queue.c', 'calc.c', 'values.c', 'exceptions.cc']) ask(() => binary.sitesOfLine(file, line));
  }
  for (const name of names) {
    ask(() => binary.functionsNamed(name));
    ask(() => binary.sitesOfFunction(name));
    ask(() => explore(binary.typeNamed(name), 3));
  }
  for (const place of places) {
    const at = address(place);
    ask(() => binary.lineAt(at));
    ask(() => binary.functionAt(at));
    ask(() => binary.inlinedAt(at));
    ask(() => binary.cfaAt(at));
    ask(() => binary.codeRangeAt(at));
    ask(() => binary.landingPadsOf(at));
    ask(() => binary.readStatic(at, 16));
    ask(() => binary.sectionOf(at));
    for (const variable of ask(() => binary.variablesAt(at)) ?? []) ask(() => explore(variable.type, 2));
    for (const variable of ask(() => binary.globalsAt(at)) ?? []) ask(() => explore(variable.type, 2));
    ask(() => binary.variableAt(at, 'counter'));
  }
  return errors;
}

const plain: Variant = { optimise: '-O2', dwarf: 5, pie: 'pie' };
const victims = [
  { name: 'DWARF 5', path: compile('gcc', ['values.c'], flagsOf(plain), 'hostile') },
  { name: 'DWARF 4', path: compileC({ ...plain, dwarf: 4 }, '-fno-asynchronous-unwind-tables') },
  { name: 'C++', path: compile('g++', ['exceptions.cc'], flagsOf(plain), 'hostile-cxx') },
];

/** The sections worth damaging: a flipped bit in code changes nothing for us. */
function damageable(bytes: Uint8Array): { start: number; size: number }[] {
  const elf = new Elf(bytes, 'whole');
  const wanted = /^\.(debug_|eh_frame$|gcc_except|symtab|strtab|dynsym|note)/;
  const sections = elf.sections.filter(({ name, size }) => wanted.test(name) && size > 0);
  const headers = elf.bytes.length - elf.sections.length * 64;
  return [
    { start: 0, size: 1024 },
    { start: headers, size: elf.sections.length * 64 },
    ...sections.map(({ fileOffset, size }) => ({ start: fileOffset, size })),
  ];
}

describe('damaged files', () => {
  for (const [index, { name, path }] of victims.entries()) {
    const whole = readFileSync(path);
    const facts = new Binary(new Elf(whole, path), { root: '/', directories: [] });
    const names = ['main', 'queue_push', 'queue_t', 'struct item', 'struct line', 'union word', 'Guard', 'catcher'];
    const places = [...facts.symbols.list()]
      .filter(({ kind, size }) => kind === 'function' && size > 16)
      .flatMap((symbol) => [symbol.address, symbol.address + BigInt(symbol.size >> 1)]);

    const judge = (bytes: Uint8Array, what: string): number => {
      // Processor time: another process's load is not ours.
      const start = process.cpuUsage();
      let errors: Map<string, number>;
      try {
        errors = interrogate(bytes, places, names);
      } catch (error) {
        throw new Error(`${what} of ${path} with seed ${seed}`, { cause: error });
      }
      const { user, system } = process.cpuUsage(start);
      expect((user + system) / 1000, `milliseconds for ${what} with seed ${seed}`).toBeLessThan(longest);
      return [...errors.values()].reduce((sum, count) => sum + count, 0);
    };

    it(`${name}: the whole file answers`, () => {
      const errors = interrogate(whole, places, ['main']);
      expect(errors.get('FASTPROBE_BINARY_DAMAGED')).toBeUndefined();
    });

    it(`${name}: cut off anywhere`, () => {
      const below = random(seed + index);
      let refusals = 0;
      for (let copy = 0; copy < copies / 3; copy++) {
        const length = below(whole.length);
        refusals += judge(whole.subarray(0, length), `cut ${copy}`);
        // The tables that lead to all else are at the end: keep them, and lose what lies between.
        const hole = Buffer.from(whole);
        hole.fill(0, length, Math.min(whole.length, length + below(whole.length / 4)));
        refusals += judge(hole, `hole ${copy}`);
      }
      expect(refusals).toBeGreaterThan(0);
    });

    it(`${name}: with bits flipped`, () => {
      const below = random(seed + 100 + index);
      const parts = damageable(whole);
      let refusals = 0;
      for (let copy = 0; copy < copies; copy++) {
        const bytes = Buffer.from(whole);
        const part = parts[below(parts.length)] ?? { start: 0, size: 64 };
        for (let flips = 1 + below(20); flips > 0; flips--) {
          const at = part.start + below(part.size);
          bytes[at] = (bytes[at] ?? 0) ^ (1 << below(8));
        }
        refusals += judge(bytes, `flip ${copy}`);
      }
      expect(refusals).toBeGreaterThan(0);
    });

    it(`${name}: with runs of noise`, () => {
      const below = random(seed + 200 + index);
      const parts = damageable(whole);
      for (let copy = 0; copy < copies / 2; copy++) {
        const bytes = Buffer.from(whole);
        const part = parts[below(parts.length)] ?? { start: 0, size: 64 };
        const start = part.start + below(part.size);
        const fill = below(3);
        for (let at = start; at < Math.min(start + 1 + below(64), part.start + part.size); at++) {
          bytes[at] = fill === 0 ? 0 : fill === 1 ? 0xff : below(256);
        }
        judge(bytes, `noise ${copy}`);
      }
    });
  }
});

describe('debug information that refers to itself', () => {
  const path = join(folder, 'rings');
  run('gcc', '-no-pie', '-o', path, join(programs, 'rings.s'));
  const binary = openBinary(path);
  const [main] = binary.functionsNamed('main');
  const variables = binary.variablesAt(main?.entry ?? address(0));

  it('ends, with a reason', () => {
    expect(variables.map(({ name }) => name)).toEqual(['of_a', 'of_b', 'of_c', 'of_d', 'of_e', 'of_f', 'of_s']);
    for (const { type, location } of variables) {
      explore(type, 5);
      expect(location).toMatchObject({ kind: 'unsupported', reason: "the function's frame base refers to itself" });
    }
    expect(variables.map(({ type }) => sizeOf(type))).toEqual([
      undefined,
      undefined,
      undefined,
      8,
      undefined,
      undefined,
      8,
    ]);
    expect(strip(binary.typeNamed('a'))).toEqual({ kind: 'unsupported', reason: 'its typedefs have no end' });
    expect(main?.name).toBe('main');
  });
});
