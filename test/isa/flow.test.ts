// Control flow: small cases by hand, jump tables against the compiler's own labels, real code against objdump.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Address, address, offsetBy } from '../../src/address.js';
import { loadDecoder } from '../../src/isa/decode.js';
import { analyseFlow, type FlowOptions, type FunctionFlow } from '../../src/isa/flow.js';
import { Image } from './image.js';
import { hex, type Line, libcPath, objdump } from './objdump.js';

beforeAll(loadDecoder);

const start = address(0x401000);
const at = (offset: number) => offsetBy(start, offset);

function flowOf(bytes: string, options: FlowOptions = {}): FunctionFlow {
  return analyseFlow(hex(bytes), start, options);
}

/** Offsets of all addresses with that answer. */
function answers(flow: FunctionFlow, answer: string): number[] {
  const size = Number(flow.end - flow.start);
  return Array.from({ length: size }, (_, i) => i).filter((offset) => flow.canBeJumpedTo(at(offset)) === answer);
}

describe('jump targets', () => {
  it('are the entry and where jumps go', () => {
    // test edi, edi; je +2; inc eax; ret
    expect(answers(flowOf('85ff 7402 ffc0 c3'), 'yes')).toEqual([0, 6]);
  });

  it('include the return from a call', () => {
    expect(answers(flowOf('e8fb0f0000 90 ffd0 c3'), 'yes')).toEqual([0, 5, 8]);
  });

  it('include targets inside an instruction, as in a jump past a lock prefix', () => {
    // je +1; lock inc dword [rdi]; ret
    const flow = flowOf('7401 f0ff07 c3');
    expect(answers(flow, 'yes')).toEqual([0, 3]);
    expect(flow.isUnclear).toBe(false);
  });

  it('include code whose address is taken', () => {
    expect(answers(flowOf('488d0501000000 90 c3'), 'yes')).toEqual([0, 8]);
    expect(answers(flowOf('bf06104000 90 c3'), 'yes')).toEqual([0, 6]);
    expect(answers(flowOf('6806104000 90 c3'), 'yes')).toEqual([0, 6]);
    expect(answers(flowOf('48b80b10400000000000 90 c3'), 'yes')).toEqual([0, 11]);
  });

  it('include what the caller names', () => {
    const flow = flowOf('90 90 90 c3', { entries: [at(1), at(100)], landingPads: [at(2)] });
    expect(answers(flow, 'yes')).toEqual([0, 1, 2]);
    expect(flow.landingPads).toEqual([at(2)]);
  });

  it('are unknown everywhere when a jump is not understood', () => {
    const flow = flowOf('ffe0 90 c3');
    expect(answers(flow, 'no')).toEqual([]);
    expect(answers(flow, 'yes')).toEqual([0]);
    expect(flow.unresolved.map(({ address: jump }) => jump)).toEqual([start]);
  });

  it('are known when the jump goes through the import table', () => {
    const flow = flowOf('ff2500100000', { isImportSlot: (slot) => slot === 0x402006n });
    expect(answers(flow, 'no')).toEqual([1, 2, 3, 4, 5]);
    expect(flow.blocks).toMatchObject([{ successors: [], leaves: true }]);
  });

  it('are unknown where code starts that nothing leads to', () => {
    // ret; nop; xor eax, eax; ret; and the padding at the end is nobody's
    expect(answers(flowOf('c3 90 31c0 c3 90 90'), 'unknown')).toEqual([1, 2]);
    expect(answers(flowOf('7402 c3 90 31c0 c3'), 'unknown')).toEqual([]);
  });

  it('are unknown when there are bytes that nobody can decode, and outside', () => {
    expect(answers(flowOf('06 c3'), 'no')).toEqual([]);
    expect(flowOf('c3').canBeJumpedTo(at(1))).toBe('unknown');
  });
});

describe('blocks', () => {
  it('end at branches and before targets', () => {
    // 0: dec edi; 2: jne 0; 4: ud2; 6: jmp 0
    const flow = flowOf('ffcf 75fc 0f0b ebf8');
    expect(flow.blocks.map((block) => [block.start, block.successors, block.leaves])).toEqual([
      [at(0), [at(0), at(4)], false],
      [at(4), [at(6)], true],
      [at(6), [at(0)], false],
    ]);
    expect(flow.blockAt(at(2))).toBe(flow.blocks[0]);
    expect(flow.blockAt(at(1))).toBeUndefined();
  });

  it('leave when the function runs into its end or jumps into an instruction', () => {
    expect(flowOf('90').blocks).toMatchObject([{ successors: [], leaves: true }]);
    expect(flowOf('7401 f0ff07 c3').blocks[0]).toMatchObject({ successors: [at(2)], leaves: true });
  });

  it('leave by a tail call', () => {
    const flow = flowOf('e9fb0f0000');
    expect(flow.blocks).toMatchObject([{ successors: [], leaves: true }]);
    expect([...flow.outsideTargets]).toEqual([0x402000n]);
  });
});

const folder = mkdtempSync(join(tmpdir(), 'fastprobe-flow-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Compiled {
  readonly program: string;
  readonly assembly: string;
}

/** Compiles to assembly and then assembles with local labels kept, so that every table and case has a symbol. */
function compileSwitches(compiler: string, flags: readonly string[]): Compiled {
  const stem = join(folder, `switches-${compiler}${flags.join('')}`);
  const source = join(import.meta.dirname, 'switches.c');
  const ours = compiler === 'clang' ? ['-fno-addrsig'] : [];
  execFileSync(compiler, ['-w', '-S', ...ours, ...flags, source, '-o', `${stem}.s`]);
  const link = flags.includes('-fno-pie') ? '-no-pie' : '-pie';
  execFileSync('gcc', ['-Wa,--keep-locals', link, `${stem}.s`, '-o', stem]);
  return { program: stem, assembly: readFileSync(`${stem}.s`, 'utf8') };
}

/** The tables in assembly text: label of the table, labels of its entries. */
function tablesIn(assembly: string): Map<string, Set<string>> {
  const tables = new Map<string, Set<string>>();
  let label = '';
  let isConstant = false;
  for (const line of assembly.split('\n')) {
    const section = /^\s*\.(section\s+(\S+)|text|data)/.exec(line);
    if (section !== null) isConstant = section[2]?.startsWith('.rodata') === true;
    label = /^(\.L\w+):/.exec(line)?.[1] ?? label;
    const entry = /^\s*\.(?:long|quad)\s+(\.L\w+)(?:-\.L\w+)?\s*$/.exec(line)?.[1];
    if (entry === undefined || !isConstant) continue;
    const entries = tables.get(label) ?? new Set();
    tables.set(label, entries.add(entry));
  }
  return tables;
}

function symbolsOf(program: string): Map<string, Address> {
  const lines = execFileSync('nm', [program], { encoding: 'utf8', maxBuffer: 1 << 26 }).split('\n');
  return new Map(
    lines.flatMap((line) => {
      const row = /^([0-9a-f]+) \S (\S+)$/.exec(line);
      return row === null ? [] : [[row[2] ?? '', address(`0x${row[1]}`)] as const];
    }),
  );
}

const isInstalled = (tool: string) => {
  try {
    execFileSync(tool, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};

describe('jump tables', () => {
  for (const compiler of ['gcc', 'clang'].filter(isInstalled)) {
    for (const level of ['-O0', '-O1', '-O2', '-O3', '-Os']) {
      for (const pie of ['-fPIE', '-fno-pie']) {
        it(`of ${compiler} ${level} ${pie} have the targets that the assembly names`, () => {
          const { program, assembly } = compileSwitches(compiler, [level, pie]);
          const symbols = symbolsOf(program);
          const place = (label: string) => symbols.get(label) ?? expect.fail(`no symbol ${label}`);
          const expected = new Map(
            [...tablesIn(assembly)].map(
              ([label, entries]) => [place(label), new Set([...entries].map(place))] as const,
            ),
          );
          const image = new Image(program);
          const found = new Set<Address>();
          for (const { start: from, end } of image.functions()) {
            const flow = analyseFlow(image.bytes(from, Number(end - from)), from, image.options);
            for (const table of flow.jumpTables) {
              expect(new Set(table.targets), `table at ${table.address.toString(16)}`).toEqual(
                expected.get(table.address),
              );
              found.add(table.address);
            }
          }
          // What is missing has no bound that could be proved: computed gotos, states that loops carry round.
          expect(found.size).toBeGreaterThanOrEqual(expected.size * 0.8);
        });
      }
    }
  }
});

describe('landing pads', () => {
  for (const level of ['-O0', '-O2', '-Os']) {
    it(`of g++ ${level} are never ruled out, even if the caller does not name them`, () => {
      const stem = join(folder, `throws${level}`);
      execFileSync('g++', ['-S', level, '-fPIE', join(import.meta.dirname, 'throws.cc'), '-o', `${stem}.s`]);
      execFileSync('g++', ['-Wa,--keep-locals', '-pie', `${stem}.s`, '-o', stem]);
      const symbols = symbolsOf(stem);
      const labels = [...readFileSync(`${stem}.s`, 'utf8').matchAll(/\.uleb128 (\.L\d+)-\.L/g)].map(
        ([, label = '']) => label,
      );
      const pads = new Set(labels.map((label) => symbols.get(label) ?? expect.fail(`no symbol ${label}`)));
      expect(pads.size).toBeGreaterThan(5);
      const image = new Image(stem);
      for (const { start: from, end } of image.functions()) {
        const analyse = (options: FlowOptions) => analyseFlow(image.bytes(from, Number(end - from)), from, options);
        const mine = [...pads].filter((pad) => pad >= from && pad < end);
        const [unnamed, named] = [analyse(image.options), analyse({ ...image.options, landingPads: mine })];
        for (const pad of mine) {
          expect(unnamed.canBeJumpedTo(pad)).not.toBe('no');
          expect(named.canBeJumpedTo(pad)).toBe('yes');
        }
      }
    });
  }
});

describe('real code', () => {
  const places = [
    { path: libcPath, from: 0, most: 4000 },
    { path: '/bin/bash', from: 0, most: 2500 },
    { path: process.execPath, from: 20_000, most: 3000 },
  ];
  for (const { path, from, most } of places) {
    it(`of ${basename(path)} has the targets that objdump shows`, () => {
      const image = new Image(path);
      const ranges = image.functions().slice(from, from + most);
      const counts = { functions: 0, unclear: 0, tables: 0, targets: 0, orphans: 0 };
      const complaints: string[] = [];
      const lines = linesOf(path, ranges);
      for (const range of ranges) {
        const flow = analyseFlow(image.bytes(range.start, Number(range.end - range.start)), range.start, image.options);
        const inside = linesIn(lines, range.start, range.end);
        const expected = targetsIn(inside, range.start, range.end);
        const tableTargets = new Set(flow.jumpTables.flatMap(({ targets }) => targets));
        for (let place = range.start; place < range.end; place = offsetBy(place, 1)) {
          const answer = flow.canBeJumpedTo(place);
          const otherwise = flow.isUnclear ? 'unknown' : 'no';
          // A table that was believed until another one turned up leaves its targets behind: unclear, and on the safe side.
          const isExtra = answer === 'yes' && (tableTargets.has(place) || flow.isUnclear);
          if (answer === (expected.has(place) ? 'yes' : otherwise) || (isExtra && !expected.has(place))) continue;
          if (answer === 'unknown' && !expected.has(place) && isOrphan(inside, place)) {
            counts.orphans++;
            continue;
          }
          complaints.push(`${answer} for ${place.toString(16)} in ${range.start.toString(16)}`);
        }
        counts.functions++;
        counts.unclear += flow.isUnclear ? 1 : 0;
        counts.tables += flow.jumpTables.length;
        counts.targets += expected.size;
      }
      expect(complaints).toEqual([]);
      expect(counts.functions).toBeGreaterThan(1000);
      expect(counts.unclear / counts.functions).toBeLessThan(0.15);
      expect(counts.orphans / counts.targets).toBeLessThan(0.02);
    });
  }
});

/** True when the line before ends a path or is padding behind such an end. */
function isOrphan(lines: readonly Line[], place: Address): boolean {
  const before = lines[lines.findIndex(({ address: one }) => one === place) - 1];
  return before !== undefined && /^(?:[a-z0-9]+ )*(?:jmp|ret|hlt|ud2|int3|iretq?|nop|xchg\s+ax,ax)/.test(before.text);
}

/** What objdump says about the whole stretch that the functions cover. */
function linesOf(path: string, ranges: readonly { start: Address; end: Address }[]): Line[] {
  const from = ranges.reduce((least, { start: one }) => (one < least ? one : least), ranges[0]?.start ?? start);
  const to = ranges.reduce((most, { end }) => (end > most ? end : most), from);
  return objdump(path, from, to);
}

/** The lines of one function, by binary search. */
function linesIn(lines: readonly Line[], from: Address, to: Address): Line[] {
  let low = 0;
  for (let high = lines.length; low < high; ) {
    const middle = (low + high) >> 1;
    if ((lines[middle]?.address ?? 0n) < from) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < lines.length && (lines[end]?.address ?? to) < to) end++;
  return lines.slice(low, end);
}

function targetsIn(lines: readonly Line[], from: Address, to: Address): Set<Address> {
  const targets = new Set([from]);
  const add = (value: bigint) => {
    if (value >= from && value < to) targets.add(address(value));
  };
  for (const { address: place, bytes, text } of lines) {
    const direct = /^(?:[a-z0-9.]+ )*(?:j[a-z]+|loop[a-z]*|xbegin|call)\s+(?:0x)?([0-9a-f]+)\b/.exec(text)?.[1];
    if (direct !== undefined) add(BigInt(`0x${direct}`));
    if (/^(?:[a-z0-9.]+ )*call\b/.test(text)) add(place + BigInt(bytes.length));
    const named = /\[rip[+-].*# (?:0x)?([0-9a-f]+)/.exec(text)?.[1];
    if (named !== undefined && direct === undefined && !/^(?:[a-z0-9.]+ )*(?:jmp|call)\b/.test(text)) {
      add(BigInt(`0x${named}`));
    }
  }
  return targets;
}
