// Compiles expressions with gcc and with src/lang, runs both in one process over the same variables, and compares.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll } from 'vitest';
import { type Address, address, offsetBy } from '../../src/address.js';
import { type Binary, openBinary } from '../../src/binary/binary.js';
import { sizeOf } from '../../src/binary/type-text.js';
import { Emitter, rip } from '../../src/isa/emit.js';
import { type Register, type RegisterSet, registerSet, registers, registersIn, rsp } from '../../src/isa/registers.js';
import { integerOf } from '../../src/lang/c-types.js';
import { check, type Typed } from '../../src/lang/check.js';
import {
  compileCondition,
  compileValue,
  type FaultPoint,
  fixedRegisters,
  type Machine,
  registersRead,
  scratchNeeded,
  scratchWanted,
} from '../../src/lang/compile.js';
import { parse } from '../../src/lang/parse.js';
import { type Scope, scopeAt } from '../../src/lang/scope.js';
import { Random } from './random.js';

export const sources = join(import.meta.dirname, 'oracle');

/** A folder that is removed when the test file is done. */
export const folder = mkdtempSync(join(tmpdir(), 'fastprobe-lang-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

export interface Build {
  readonly name: string;
  readonly compiler: string;
  readonly flags: readonly string[];
  /** Where the compiled expressions go, seen from where the program is. */
  readonly codeAt: (start: bigint) => bigint;
}

const valuesPerSet = 256;
const chunkSize = 100;

/** The program that has the expressions as gcc sees them; with `room`, for more of ours than gcc has. */
export function buildProgram(expressions: readonly string[], build: Build, stem: string, room = 0): string {
  const lines = ['#include "oracle.h"', 'extern unsigned long oracle_result;'];
  const count = Math.max(expressions.length, room);
  lines.push(`const int oracle_count = ${count};`, `unsigned char oracle_size[${count}], oracle_signed[${count}];`);
  lines.push(
    '#define CASE(which, e) case which: oracle_size[which] = sizeof(e); \\',
    '  oracle_signed[which] = (__typeof__(e))-1 < (__typeof__(e))1; oracle_result = (unsigned long)(e); return;',
  );
  for (let at = 0; at < count; at += chunkSize) {
    lines.push(`static void chunk_${at}(int which) { LOCALS switch (which) {`);
    expressions.slice(at, at + chunkSize).forEach((text, index) => {
      lines.push(`CASE(${at + index}, (${text}))`);
    });
    lines.push('} USED }');
  }
  lines.push('void oracle_value(int which) { switch (which / 100) {');
  for (let at = 0; at < count; at += chunkSize) lines.push(`case ${at / chunkSize}: chunk_${at}(which); break;`);
  lines.push('} }');
  const source = join(folder, `${stem}.c`);
  const objects = ['expressions', 'stage', 'main'].map((part) => join(folder, `${stem}-${part}.o`));
  const [expressionsObject = '', stageObject = '', mainObject = ''] = objects;
  writeFileSync(source, `${lines.join('\n')}\n`);
  const pie = build.flags.includes('-no-pie') ? '-fno-pie' : '-fPIE';
  const compile = (compiler: string, from: string, to: string, ...flags: string[]) =>
    execFileSync(compiler, ['-w', pie, ...flags, '-I', sources, '-c', from, '-o', to], { stdio: 'inherit' });
  // Without the sanitizer, gcc drops a division by zero where it does not need the result.
  const traps = ['-fsanitize=integer-divide-by-zero', '-fsanitize-undefined-trap-on-error'];
  compile('gcc', source, expressionsObject, '-O0', '-fwrapv', ...traps);
  const optimise = build.flags.filter((flag) => !flag.endsWith('pie'));
  compile(build.compiler, join(sources, 'stage.c'), stageObject, '-g', '-fwrapv', '-mno-red-zone', ...optimise);
  compile('gcc', join(sources, 'main.c'), mainObject, '-g', '-O1');
  const program = join(folder, stem);
  const link = build.flags.includes('-no-pie') ? '-no-pie' : '-pie';
  execFileSync(build.compiler, [link, ...objects, '-o', program], { stdio: 'inherit' });
  return program;
}

/** The scope at the place where the compiled expressions run. */
export function scopeOf(program: string): { binary: Binary; scope: Scope } {
  const binary = openBinary(program);
  const [site] = binary.symbols.named('site');
  if (site === undefined) throw new Error(`${program} has no site`);
  return { binary, scope: scopeAt(binary, site.address) };
}

export interface Surroundings {
  readonly saved: readonly Register[];
  readonly scratch: readonly Register[];
  readonly to: Register;
  readonly isCondition: boolean;
}

/** Random registers to work with: sometimes just enough, sometimes plenty; some of the target's values on the stack. */
export function randomSurroundings(random: Random, typed: Typed, isNear: boolean): Surroundings {
  const others = shuffled(
    random,
    registers.filter((each) => each !== rsp),
  );
  const isCondition = random.chance(0.4);
  for (let count = random.chance(0.5) ? 0 : 1 + random.below(4); count < others.length; count += 3) {
    const around = surroundingsWith(random, typed, { isNear, isCondition }, others, others.slice(0, count));
    if (around !== undefined) return around;
  }
  throw new Error(`no registers for ${typed.text}`);
}

/** Undefined if what the expression reads leaves too few registers: more must be saved then. */
function surroundingsWith(
  random: Random,
  typed: Typed,
  { isNear, isCondition }: { isNear: boolean; isCondition: boolean },
  others: readonly Register[],
  saved: readonly Register[],
): Surroundings | undefined {
  const savedSet = registerSet(...saved);
  const fixed = fixedRegisters(typed);
  const homes = registersRead(typed) & ~savedSet;
  const measure = random.chance(0.5) ? scratchNeeded : scratchWanted;
  const details = { as: isCondition ? 'condition' : 'value', saved: savedSet, globalsInReach: isNear } as const;
  const needed = measure(typed, details);
  const scratch = new Set<Register>([...saved, ...registersIn(fixed)]);
  const isUsable = (each: Register) => (homes & registerSet(each)) === 0 && (fixed & registerSet(each)) === 0;
  const usable = () => [...scratch].filter(isUsable).length + registersIn(fixed).length;
  for (const each of others) {
    if (usable() >= needed) break;
    if (isUsable(each)) scratch.add(each);
  }
  if (usable() < scratchNeeded(typed, details)) return undefined;
  const list = shuffled(random, [...scratch]);
  return { saved, scratch: list, to: random.pick(list.length === 0 ? others : list), isCondition };
}

function shuffled<T>(random: Random, list: readonly T[]): T[] {
  return list
    .map((each) => ({ each, key: random.next() }))
    .sort((a, b) => a.key - b.key)
    .map(({ each }) => each);
}

/** Two return addresses lie between the program's stack pointer at the site and ours. */
const callDepth = 16;

interface Piece {
  readonly bytes: Uint8Array;
  readonly faults: readonly FaultPoint[];
  readonly resume: Address;
  /** Registers that it may leave changed. */
  readonly clobbered: RegisterSet;
}

/** One expression as a function that writes its result and status to `result`. */
function emitPiece(
  at: Address,
  typed: Typed,
  around: Surroundings,
  result: Address,
  bias: bigint,
  random: Random,
): Piece {
  const code = new Emitter(at);
  const { saved, scratch, to } = around;
  for (const each of saved) code.push(each);
  const homes = registersRead(typed) & ~registerSet(...saved);
  for (const each of scratch) {
    if ((homes & registerSet(each)) === 0) code.movImmediate(each, random.bits());
  }
  const onFault = code.label('fault');
  const machine: Machine = {
    scratch,
    home: (register) => {
      const index = saved.indexOf(register);
      return index < 0 ? register : { stackOffset: 8 * (saved.length - 1 - index) };
    },
    stackDepth: callDepth + 8 * saved.length,
    loadBias: bias,
    onFault,
  };
  const end = () => {
    for (const each of [...saved].reverse()) code.pop(each);
    code.ret();
  };
  let faults: FaultPoint[];
  if (around.isCondition) {
    const ifFalse = code.label('false');
    faults = compileCondition(code, typed, machine, ifFalse);
    code.storeImmediate(rip(result), 1);
    code.storeImmediate(rip(offsetBy(result, 8)), 0);
    end();
    code.bind(ifFalse);
    code.storeImmediate(rip(result), 0);
  } else {
    faults = compileValue(code, typed, machine, to);
    code.store(rip(result), to);
  }
  code.storeImmediate(rip(offsetBy(result, 8)), 0);
  end();
  code.bind(onFault);
  const resume = code.here;
  code.storeImmediate(rip(offsetBy(result, 8)), 1);
  end();
  // The result may go to a register that is no scratch register.
  const clobbered = registerSet(...scratch, to) & ~registerSet(...saved);
  return { bytes: code.finish(), faults, resume, clobbered };
}

export interface Outcome {
  readonly problems: readonly string[];
  readonly compared: number;
}

/** Compiles all expressions for the program when it starts at `start`, and writes them to a file that it can map. */
export function writeCode(
  program: string,
  expressions: readonly string[],
  build: Build,
  options: { readonly seed: number; readonly sets: number; readonly start?: bigint },
) {
  const { binary, scope } = scopeOf(program);
  const lowest = binary.segments.reduce((low, { address: at }) => (at < low ? at : low), address((1n << 64n) - 1n));
  const start = options.start ?? lowest;
  const base = address(build.codeAt(start));
  const isNear = BigInt.asIntN(64, base - start) === BigInt.asIntN(32, base - start);
  const typed = expressions.map((text) => check(parse(text, scope), scope));
  const random = new Random(options.seed);
  const file = buildFile(base, typed, { bias: start - lowest, random, sets: options.sets, isNear });
  const path = `${program}.code`;
  writeFileSync(path, file.bytes);
  return { path, typed, around: file.around };
}

/** Compiles all expressions for the program, runs it, and tells where it and gcc differ in value, size or sign. */
export async function compareWithGcc(
  program: string,
  expressions: readonly string[],
  build: Build,
  options: { readonly seed: number; readonly sets: number; readonly mayDropOverflow?: boolean },
): Promise<Outcome> {
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (exitCode, signal) => resolve(`${signal ?? exitCode}`));
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const start = BigInt(((await lines.next()).value as string).replace('start ', ''));
  const { path, typed, around } = writeCode(program, expressions, build, { ...options, start });
  child.stdin.end(`${path}\n`);
  const problems: string[] = [];
  let sets = 0;
  let which = 0;
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const parts = line.value.split(' ');
    if (parts[0] === 'done') sets++;
    else if (parts[0] === 'type') {
      const problem = typeProblem(typed[which], Number(parts[1]), parts[2] === '1');
      if (problem !== undefined) problems.push(`${expressions[which]}: ${problem}`);
      which++;
    } else {
      const index = Number(parts[parts[0] === 'damaged' ? 1 : 2]);
      // gcc may leave out a division whose result it does not need, also if it would overflow: ours faults then, gcc's not.
      const isDropped = / ours \w+ 1 gcc \w+ 0$/.test(line.value) && /[/%]/.test(expressions[index] ?? '');
      if (isDropped && options.mayDropOverflow === true) continue;
      problems.push(`${expressions[index] ?? ''}: ${line.value} ${JSON.stringify(around[index])}`);
    }
  }
  const status = await ended;
  if (status !== '0' || sets !== options.sets) problems.push(`the program ended with ${status} after ${sets} sets`);
  return { problems, compared: sets * expressions.length };
}

const gdbScript = `
import gdb, json
asked = json.load(open(ASKED))
gdb.execute("set debuginfod enabled off")
gdb.execute("set confirm off")
gdb.execute("break *(unsigned long)&site")
gdb.execute("handle SIGSEGV SIGFPE SIGILL nostop noprint pass")
gdb.execute("run values < %s > %s" % (asked["input"], asked["output"]), to_string=True)
answers = []
for text in asked["expressions"]:
  try:
    answers.append(str(int(gdb.parse_and_eval("(long)(%s)" % text)) & 0xffffffffffffffff))
  except gdb.error as error:
    answers.append("error: " + str(error))
gdb.execute("delete")
gdb.execute("continue", to_string=True)
json.dump(answers, open(asked["answers"], "w"))
`;

export interface GdbAnswer {
  readonly text: string;
  /** As 64 bits; undefined if gdb could not. */
  readonly gdb: bigint | undefined;
  /** Undefined if it faulted. */
  readonly ours: bigint | undefined;
  readonly isCondition: boolean;
}

/** What gdb makes of each expression at the site, and what our code then makes of it in the same process. */
export function compareWithGdb(program: string, expressions: readonly string[], build: Build): GdbAnswer[] {
  const { path, around } = writeCode(program, expressions, build, { seed: 99, sets: 1 });
  const at = (name: string) => join(folder, name);
  const asked = { expressions, input: at('gdb-input'), output: at('gdb-output'), answers: at('gdb-answers.json') };
  writeFileSync(at('gdb-asked.json'), JSON.stringify(asked));
  writeFileSync(asked.input, `${path}\n`);
  writeFileSync(at('gdb-script.py'), gdbScript.replace('ASKED', JSON.stringify(at('gdb-asked.json'))));
  execFileSync('gdb', ['-q', '-nx', '-batch', '-x', at('gdb-script.py'), program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const answers = JSON.parse(readFileSync(asked.answers, 'utf8')) as string[];
  const values = [...readFileSync(asked.output, 'utf8').matchAll(/^value ([0-9a-f]+) ([01])$/gm)];
  return expressions.map((text, index) => {
    const answer = answers[index] ?? '';
    const [, value = '0', status] = values[index] ?? [];
    const gdb = answer.startsWith('error') || answer === '' ? undefined : BigInt(answer);
    const ours = status === '0' ? BigInt(`0x${value}`) : undefined;
    return { text, gdb, ours, isCondition: around[index]?.isCondition === true };
  });
}

function typeProblem(typed: Typed | undefined, size: number, isSigned: boolean): string | undefined {
  if (typed === undefined) return 'not compiled';
  const ours = { size: sizeOf(typed.type), isSigned: integerOf(typed.type)?.kind.isSigned ?? false };
  if (ours.size === size && ours.isSigned === isSigned) return undefined;
  return `its type has ${ours.size} bytes, signed ${ours.isSigned}; in gcc ${size}, ${isSigned}`;
}

function buildFile(
  base: Address,
  typed: readonly Typed[],
  options: { bias: bigint; random: Random; sets: number; isNear: boolean },
) {
  const { bias, random, sets, isNear } = options;
  const count = typed.length;
  const entriesAt = 128;
  const resultsAt = entriesAt + 16 * count;
  const valuesAt = resultsAt + 16 * count;
  const codeAt = valuesAt + 8 * valuesPerSet * sets;
  const around = typed.map((each) => randomSurroundings(random, each, isNear));
  let at = codeAt;
  const pieces = typed.map((each, index) => {
    const result = offsetBy(base, resultsAt + 16 * index);
    const piece = emitPiece(offsetBy(base, at), each, around[index] as Surroundings, result, bias, random);
    const from = at;
    at += piece.bytes.length;
    return { ...piece, from };
  });
  const faultsAt = (at + 7) & ~7;
  const faults = pieces.flatMap(({ faults: points, resume }) => points.map((point) => ({ at: point.at, resume })));
  const size = faultsAt + 16 * faults.length;
  const bytes = new Uint8Array((size + 4095) & ~4095);
  const view = new DataView(bytes.buffer);
  const put = (offset: number, ...values: readonly (bigint | number)[]) => {
    values.forEach((value, index) => {
      view.setBigUint64(offset + 8 * index, BigInt.asUintN(64, BigInt(value)), true);
    });
  };
  put(0, base, bytes.length, count, entriesAt, resultsAt, faults.length, faultsAt, sets, valuesAt);
  pieces.forEach(({ bytes: code, from, clobbered }, index) => {
    const condition = around[index]?.isCondition === true ? 1n << 63n : 0n;
    put(entriesAt + 16 * index, base + BigInt(from), BigInt(clobbered) | condition);
    bytes.set(code, from);
  });
  for (let index = 0; index < valuesPerSet * sets; index++) put(valuesAt + 8 * index, random.bits());
  // The first set has i / j and l / ll overflow.
  const overflowing = [1n << 31n, -1n, 1n << 63n, -1n];
  for (const [which, place] of [5, 6, 9, 11].entries()) put(valuesAt + 8 * place, overflowing[which] ?? 0n);
  faults.forEach((fault, index) => {
    put(faultsAt + 16 * index, fault.at, fault.resume);
  });
  return { bytes, around };
}
