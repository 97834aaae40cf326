// Line tables against objdump, row by row; sites of lines and functions against gdb's breakpoints, line by line.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Address, address } from '../../src/address.js';
import { type Binary, openBinary } from '../../src/binary/binary.js';
import { DebugInfo } from '../../src/binary/debug-info.js';
import { Elf } from '../../src/binary/elf.js';
import { rowFlag } from '../../src/binary/line-program.js';
import {
  compileC,
  compileCxx,
  fewVariants,
  folder,
  gdb,
  hasGdb,
  nameOf,
  oldVariants,
  programs,
  run,
  variants,
} from './compile.js';

const all = [
  ...[...variants, ...oldVariants].map((variant) => ({
    name: `C, ${nameOf(variant)}`,
    path: compileC(variant),
    sources: ['queue.c', 'calc.c', 'queue.h'],
  })),
  ...fewVariants.map((variant) => ({
    name: `C++, ${nameOf(variant)}`,
    path: compileCxx(variant),
    sources: ['shapes.cc'],
  })),
];

function objdumpRows(path: string): string[] {
  return run('objdump', '--dwarf=decodedline', path)
    .split('\n')
    .flatMap((text) => {
      const match = /^(\S+) +(\d+|-) +(0x[0-9a-f]+|0)(?: +\d+)?( +x)?(?: +END)?\s*$/.exec(text);
      if (match === null) return [];
      const isEnd = match[2] === '-';
      return [`${match[1]} ${match[2]} ${Number(match[3])} ${!isEnd && match[4] !== undefined}`];
    });
}

function ourRows(path: string): string[] {
  const info = new DebugInfo(new Elf(readFileSync(path), path));
  return info.lineTables().flatMap((table) => {
    const { rows } = table;
    return Array.from({ length: rows.count }, (_, row) => {
      const flags = rows.flags[row] ?? 0;
      const isEnd = (flags & rowFlag.endSequence) !== 0;
      const file = basename(table.files[rows.files[row] ?? 0] ?? '?');
      return `${file} ${isEnd ? '-' : rows.lines[row]} ${rows.addresses[row]} ${!isEnd && (flags & rowFlag.statement) !== 0}`;
    });
  });
}

describe('line tables', () => {
  let compared = 0;
  it.each(all)('have every row that objdump decodes: $name', ({ path }) => {
    const expected = objdumpRows(path);
    compared += expected.length;
    expect(expected.length).toBeGreaterThan(200);
    expect(ourRows(path)).toEqual(expected);
  });
  it('were compared in numbers worth it', () => {
    console.log(`line rows compared with objdump: ${compared}`);
    expect(compared).toBeGreaterThan(4000);
  });
});

/** The addresses of gdb's breakpoints for each location, or what it said instead. */
function gdbBreaks(path: string, locations: readonly string[]): (bigint[] | string)[] {
  const results = gdb(path, [...locations.map((location) => `break ${location}`), 'info breakpoints']);
  const places = new Map<string, bigint[]>();
  for (const line of (results.at(-1) ?? '').split('\n')) {
    const match = /^(\d+)(?:\.\d+)? .*?(0x[0-9a-f]{16})/.exec(line);
    if (match === null) continue;
    const list = places.get(match[1] ?? '') ?? [];
    list.push(BigInt(match[2] ?? 0));
    places.set(match[1] ?? '', list);
  }
  return results.slice(0, -1).map((text) => {
    const number = /Breakpoint (\d+) at/.exec(text)?.[1];
    return number === undefined ? text.trim() : [...new Set(places.get(number) ?? [])].sort(compare);
  });
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * What gdb makes of our sites. It takes the split-off part of a function that lies below its entry for a prologue, and
 * breaks at the entry instead, where the line is not; that is its mistake, and the only difference that is allowed.
 */
function asGdbMoves(binary: Binary, at: Address): bigint {
  const facts = binary.functionAt(at);
  return facts !== undefined && at < facts.entry ? facts.bodyStart : at;
}

function ourSites(binary: Binary, file: string, line: number): bigint[] | string {
  try {
    const { sites } = binary.sitesOfLine(file, line);
    return [...new Set(sites.map((site) => asGdbMoves(binary, site.address)))].sort(compare);
  } catch (error) {
    return String(error);
  }
}

function ourFunctionSites(binary: Binary, name: string): bigint[] {
  try {
    return binary.sitesOfFunction(name).map((site) => site.address);
  } catch (error) {
    expect(error).toMatchObject({ code: 'FASTPROBE_FUNCTION_UNKNOWN' });
    return [];
  }
}

const linesOf = (source: string) => readFileSync(join(programs, source), 'utf8').split('\n').length - 1;

describe.skipIf(!hasGdb())('against gdb', () => {
  let lines = 0;
  let withSites = 0;
  let addresses = 0;

  it.each(all)('every line has the sites of gdb break: $name', ({ path, sources }) => {
    const binary = openBinary(path);
    const wanted = sources.flatMap((file) =>
      Array.from({ length: linesOf(file) }, (_, at) => ({ file, line: at + 1 })),
    );
    const expected = gdbBreaks(
      path,
      wanted.map(({ file, line }) => `${file}:${line}`),
    );
    const differences = wanted.flatMap(({ file, line }, index) => {
      const theirs = expected[index];
      const ours = ourSites(binary, file, line);
      if (typeof theirs === 'object' && typeof ours === 'object') withSites++;
      if (typeof theirs === 'string' && typeof ours === 'string') return [];
      const show = (list: bigint[] | string | undefined) =>
        typeof list === 'string' ? list : (list ?? []).map((at) => `0x${at.toString(16)}`).join(' ');
      return show(theirs) === show(ours) ? [] : [`${file}:${line} gdb: ${show(theirs)} ours: ${show(ours)}`];
    });
    lines += wanted.length;
    expect(differences).toEqual([]);
  });

  it('were compared in numbers worth it', () => {
    console.log(`lines whose sites were compared with gdb: ${lines}, of which with sites: ${withSites}`);
    expect(withSites).toBeGreaterThan(1500);
  });

  it.each(all)('addresses have the lines of gdb: $name', ({ path }) => {
    const binary = openBinary(path);
    const text = new Elf(readFileSync(path), path).section('.text');
    const start = Number(text?.address ?? 0);
    const places = Array.from({ length: Math.floor((text?.size ?? 0) / 3) }, (_, at) => start + at * 3);
    const answers = gdb(
      path,
      places.map((at) => `info line *${at}`),
    );
    const differences = places.flatMap((at, index) => {
      const match = /^Line (\d+) of "(.*)" /.exec(answers[index] ?? '');
      const theirs = match === null ? 'none' : `${basename(match[2] ?? '')}:${match[1]}`;
      const line = binary.lineAt(address(at));
      const ours = line === undefined ? 'none' : `${basename(line.file)}:${line.line}`;
      return theirs === ours ? [] : [`0x${at.toString(16)} gdb: ${theirs} ours: ${ours}`];
    });
    addresses += places.length;
    expect(differences).toEqual([]);
  });

  it.each(all)('functions have the sites of gdb break: $name', ({ path }) => {
    const binary = openBinary(path);
    const names = [
      'main',
      'queue_push',
      'queue_pop',
      'queue_sum',
      'twice',
      'mean',
      'deep',
      'many',
      'dispatch',
      'add',
      'clamp',
    ];
    const cxx = ['main', 'geometry::Square::area', 'geometry::largest<int>', 'overloaded'];
    const wanted = path.includes('/cxx') ? cxx : names;
    const expected = gdbBreaks(path, wanted);
    for (const [index, name] of wanted.entries()) {
      const theirs = expected[index];
      if (theirs === undefined || typeof theirs === 'string') {
        expect(ourFunctionSites(binary, name), `${name}, of which gdb says ${theirs}`).toEqual([]);
        continue;
      }
      const bodies: bigint[] = binary.functionsNamed(name).map((facts) => facts.bodyStart);
      const copies = binary.inlinedCopiesOf(name);
      const isInCopy = (at: bigint) =>
        copies.some((copy) => copy.ranges.some((range) => at >= range.low && at < range.high));
      expect(
        bodies.filter((at) => !theirs.includes(at)),
        `${name}: bodies that gdb does not know`,
      ).toEqual([]);
      expect(
        theirs.filter((at) => !bodies.includes(at) && !isInCopy(at)),
        `${name}: sites only gdb knows`,
      ).toEqual([]);
      const sites = binary.sitesOfFunction(name);
      expect(sites.length).toBeGreaterThanOrEqual(theirs.length);
    }
  });

  it('compared addresses too', () => {
    console.log(`addresses whose lines were compared with gdb: ${addresses}`);
    expect(addresses).toBeGreaterThan(5000);
  });
});

describe('paths', () => {
  it('begin with the directory of the compilation, also if that is relative', () => {
    for (const dwarf of [4, 5]) {
      const path = join(folder, `relative${dwarf}`);
      const flags = ['-g', `-gdwarf-${dwarf}`, `-fdebug-prefix-map=${programs}=./src`, '-o', path];
      execFileSync('gcc', [...flags, 'values.c'], { cwd: programs });
      expect(openBinary(path).sitesOfLine('src/values.c', 60).file).toBe('src/values.c');
    }
  });
});

describe('ranges', () => {
  it('may lie below the base address of their unit', () => {
    const path = join(folder, 'base-above');
    run('gcc', '-no-pie', '-o', path, join(programs, 'base-above.s'));
    const binary = openBinary(path);
    const [main] = binary.symbols.named('main');
    expect(binary.functionAt(main?.address ?? address(0))).toMatchObject({ name: 'main.main', source: 'debug-info' });
    expect(binary.variablesAt(main?.address ?? address(0))).toEqual([]);
  });
});
