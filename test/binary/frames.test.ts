// Frame addresses against readelf's tables, code ranges, and landing pads against the assembler's labels and the unwinder.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { type Binary, openBinary } from '../../src/binary/binary.js';
import { Elf } from '../../src/binary/elf.js';
import { Symbols } from '../../src/binary/symbols.js';
import {
  compile,
  compileC,
  compileCxx,
  fewVariants,
  flagsOf,
  folder,
  nameOf,
  programs,
  run,
  variants,
} from './compile.js';

const libc = run('gcc', '-print-file-name=libc.so.6').trim();
const plain = { optimise: '-O2', dwarf: 5, pie: 'pie' } as const;

interface FrameTable {
  readonly low: number;
  readonly high: number;
  readonly rows: { at: number; cfa: string }[];
}

/** The tables that readelf works out, one per entry (FDE). */
function readelfTables(path: string): FrameTable[] {
  const tables: FrameTable[] = [];
  let isCommon = false;
  for (const line of run('readelf', '--debug-dump=no-follow-links', '-wF', path).split('\n')) {
    const entry = /^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ (?:FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)|CIE )/.exec(line);
    if (entry !== null) {
      isCommon = entry[1] === undefined;
      if (!isCommon) tables.push({ low: parseInt(entry[1] ?? '', 16), high: parseInt(entry[2] ?? '', 16), rows: [] });
      continue;
    }
    const row = isCommon ? null : /^([0-9a-f]{16}) (\S+)/.exec(line);
    if (row !== null) tables.at(-1)?.rows.push({ at: parseInt(row[1] ?? '', 16), cfa: row[2] ?? '' });
  }
  return tables;
}

function ourCfa(binary: Binary, at: number): string {
  const rule = binary.cfaAt(address(at));
  return rule.kind === 'register' ? `${rule.register}+${rule.offset}` : rule.reason;
}

describe('frame addresses', () => {
  let rows = 0;
  it.each([
    ...variants.map((variant) => [nameOf(variant), compileC(variant)] as const),
    ['gcc -O2 -fomit-frame-pointer', compileC(plain, '-fomit-frame-pointer')] as const,
    ['gcc -O0 -fno-omit-frame-pointer, C++', compileCxx({ ...plain, optimise: '-O0' })] as const,
    ['gcc -O2, in .debug_frame', compileC(plain, '-fno-asynchronous-unwind-tables')] as const,
    ['libc', libc] as const,
  ])('are those of readelf in every row: %s', (_, path) => {
    const binary = openBinary(path);
    const tables = readelfTables(path);
    expect(tables.length).toBeGreaterThan(10);
    const differences: string[] = [];
    for (const { low, high, rows: list } of tables) {
      expect(binary.codeRangeAt(address(low))).toEqual({ low: address(low), high: address(high) });
      for (const [index, { at, cfa }] of list.entries()) {
        const last = (list[index + 1]?.at ?? high) - 1;
        const theirs = cfa === 'exp' ? 'the frame address is given by an expression' : cfa;
        for (const place of [at, last]) {
          const ours = ourCfa(binary, place);
          if (ours !== theirs) differences.push(`0x${place.toString(16)} readelf: ${theirs} ours: ${ours}`);
        }
        rows++;
      }
    }
    expect(differences).toEqual([]);
  });
  it('were compared in numbers worth it', () => {
    console.log(`rows of frame tables compared with readelf: ${rows}`);
    expect(rows).toBeGreaterThan(10000);
  });
});

describe('code ranges', () => {
  it('of a stripped library are the sizes that its symbols have', () => {
    const symbols = new Symbols([new Elf(readFileSync(libc), libc)]).list();
    const binary = openBinary(libc);
    const sized = symbols.filter((symbol) => symbol.kind === 'function' && symbol.size > 0);
    const differing = sized.filter((symbol) => {
      const range = binary.codeRangeAt(symbol.address);
      return range?.low !== symbol.address || range.high !== symbol.address + BigInt(symbol.size);
    });
    // Some symbols name a part of a function written in assembly; frame information then tells the whole of it.
    console.log(`code ranges compared with symbols: ${sized.length}, different: ${differing.length}`);
    expect(sized.length).toBeGreaterThan(1500);
    for (const symbol of differing) {
      const range = binary.codeRangeAt(symbol.address);
      expect(range !== undefined && range.low <= symbol.address && symbol.address < range.high, symbol.name).toBe(true);
    }
    expect(differing.length).toBeLessThan(sized.length / 20);
  });

  it('come from symbols, then from debug information, where there are no frames', () => {
    const noFrames = join(folder, 'no-frames');
    run('objcopy', '--remove-section=.debug_frame', compileC(plain, '-fno-asynchronous-unwind-tables'), noFrames);
    const range = openBinary(compileC(plain)).functionsNamed('queue_push')[0]?.ranges[0];
    const binary = openBinary(noFrames);
    const [push] = binary.functionsNamed('queue_push');
    expect(binary.cfaAt(push?.entry ?? address(0))).toMatchObject({ kind: 'unsupported' });
    expect(binary.codeRangeAt(address((push?.entry ?? 0n) + 3n))).toEqual(push?.ranges[0]);
    expect((push?.ranges[0]?.high ?? 0n) - (push?.entry ?? 0n)).toBe((range?.high ?? 0n) - (range?.low ?? 0n));
    const noSymbols = join(folder, 'no-symbols');
    run('objcopy', '--remove-section=.symtab', '--strip-symbol=queue_push', noFrames, noSymbols);
    const bare = openBinary(noSymbols);
    expect(bare.symbols.named('queue_push')).toEqual([]);
    expect(bare.codeRangeAt(address((push?.entry ?? 0n) + 3n))).toEqual(push?.ranges[0]);
    expect(bare.codeRangeAt(address(0x10))).toBeUndefined();
  });
});

/**
 * Compiles exceptions.cc to assembly, turns its private labels into symbols, and links that: so the assembler tells the
 * address of every landing pad that the compiler wrote into a call-site table.
 */
function labelled(flags: readonly string[]): { path: string; tables: Map<string, Set<string>> } {
  const stem = join(folder, `labelled${flags.join('')}`);
  execFileSync('g++', ['-S', ...flags, '-o', `${stem}.first.s`, join(programs, 'exceptions.cc')]);
  const text = readFileSync(`${stem}.first.s`, 'utf8').replaceAll(/(?<![\w.])\.L(\w+)/g, 'label_$1');
  writeFileSync(`${stem}.s`, text);
  execFileSync('g++', [...flags, '-rdynamic', '-o', stem, `${stem}.s`, '-ldl']);
  const tables = new Map<string, Set<string>>();
  for (const match of text.matchAll(
    /^label_LSDACSBC?\d+:\n((?:\t\.uleb128 .*\n|label_\w+:\n)*?)label_LSDACSEC?\d+:/gm,
  )) {
    const numbers = [...(match[1] ?? '').matchAll(/\.uleb128 (.*)/g)].map((each) => each[1] ?? '');
    for (let index = 0; index < numbers.length; index += 4) {
      const start = numbers[index]?.split('-')[1];
      if (start === undefined) continue;
      const pads = tables.get(start) ?? new Set();
      const pad = numbers[index + 2] ?? '0';
      if (pad !== '0') pads.add(pad.split('-')[0] ?? '');
      tables.set(start, pads);
    }
  }
  return { path: stem, tables };
}

describe('landing pads', () => {
  it.each(variants.filter(({ dwarf }) => dwarf === 5).map((variant) => [nameOf(variant), flagsOf(variant)] as const))(
    'are the labels that the compiler wrote into its tables: %s',
    (_, flags) => {
      const { path, tables } = labelled(flags);
      const binary = openBinary(path);
      const addressOf = (label: string) => {
        const [symbol] = binary.symbols.named(label);
        if (symbol === undefined) throw new Error(`${label} is no symbol`);
        return symbol.address;
      };
      let pads = 0;
      for (const [start, labels] of tables) {
        const expected = [...labels].map(addressOf).sort((a, b) => (a < b ? -1 : 1));
        expect(binary.landingPadsOf(addressOf(start)), start).toEqual(expected);
        pads += expected.length;
      }
      expect(tables.size).toBeGreaterThanOrEqual(4);
      expect(pads).toBeGreaterThanOrEqual(8);
      const [without] = binary.functionsNamed('_Z5plainii');
      expect(binary.landingPadsOf(without?.entry ?? address(0))).toEqual([]);
    },
  );

  it.each(fewVariants.map((variant) => [nameOf(variant), variant] as const))(
    'include every one that the unwinder goes to: %s',
    (_, variant) => {
      const path = compile('g++', ['exceptions.cc'], [...flagsOf(variant), '-rdynamic', '-ldl'], 'exceptions');
      const binary = openBinary(path);
      const start = binary.segments[0]?.address ?? 0n;
      const reached = [...run(path).matchAll(/^pad (0x[0-9a-f]+)$/gm)].map((match) => BigInt(match[1] ?? 0) + start);
      expect(reached.length).toBeGreaterThan(8);
      for (const pad of reached) expect(binary.landingPadsOf(address(pad))).toContain(pad);
    },
  );

  it('are found in every function of a C++ library that has a table', () => {
    const path = run('g++', '-print-file-name=libstdc++.so.6').trim();
    const binary = openBinary(path);
    const entries = readelfTables(path);
    const pads = entries.flatMap(({ low, high }) =>
      binary.landingPadsOf(address(low)).map((pad) => ({ pad, isInside: pad >= low && pad < high })),
    );
    console.log(`landing pads in libstdc++: ${pads.length}, in ${entries.length} frame entries`);
    expect(pads.length).toBeGreaterThan(500);
    expect(pads.filter(({ isInside }) => !isInside)).toEqual([]);
  });
});
