// Compiles the programs of test/binary/programs in the variants that tests compare, and runs the tools that check us.

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

export const programs = join(import.meta.dirname, 'programs');

/** A folder that is removed when the test file is done. */
export const folder = mkdtempSync(join(tmpdir(), 'fastprobe-binary-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

export interface Variant {
  readonly optimise: '-O0' | '-O2';
  readonly dwarf: 2 | 3 | 4 | 5;
  readonly pie: 'pie' | 'no-pie';
}

export const variants: readonly Variant[] = (['-O0', '-O2'] as const).flatMap((optimise) =>
  ([5, 4] as const).flatMap((dwarf) => (['pie', 'no-pie'] as const).map((pie) => ({ optimise, dwarf, pie }))),
);

/** Half of them, in which every choice still occurs, for what takes long. */
export const fewVariants = variants.filter(({ dwarf, pie }) => (dwarf === 5) === (pie === 'pie'));

/** What old compilers and some of today's write. */
export const oldVariants: readonly Variant[] = [
  { optimise: '-O2', dwarf: 3, pie: 'no-pie' },
  { optimise: '-O0', dwarf: 2, pie: 'pie' },
];

export function nameOf(variant: Variant): string {
  return `gcc ${variant.optimise} DWARF ${variant.dwarf} ${variant.pie}`;
}

const built = new Map<string, string>();

/** Compiles sources of test/binary/programs; what was compiled before in this file is not compiled again. */
export function compile(compiler: string, sources: readonly string[], flags: readonly string[], stem: string): string {
  const key = `${stem}${flags.join('')}`.replaceAll(/[^\w-]/g, '_');
  const known = built.get(key);
  if (known !== undefined) return known;
  const output = join(folder, key);
  execFileSync(compiler, ['-g', '-w', ...flags, '-o', output, ...sources.map((name) => join(programs, name)), '-lm']);
  built.set(key, output);
  return output;
}

export function flagsOf(variant: Variant): string[] {
  const pie = variant.pie === 'pie' ? ['-fPIE', '-pie'] : ['-fno-pie', '-no-pie'];
  return [variant.optimise, `-gdwarf-${variant.dwarf}`, ...pie];
}

/** The C program of queue.c and calc.c. */
export function compileC(variant: Variant, ...flags: string[]): string {
  return compile('gcc', ['queue.c', 'calc.c'], [...flagsOf(variant), ...flags], 'c');
}

/** The C++ program shapes.cc. */
export function compileCxx(variant: Variant, ...flags: string[]): string {
  return compile('g++', ['shapes.cc'], [...flagsOf(variant), ...flags], 'cxx');
}

export function run(tool: string, ...args: string[]): string {
  return execFileSync(tool, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] });
}

/** True if gdb is here; otherwise says loudly that the tests against it are left out. */
export function hasGdb(): boolean {
  return isHere('gdb', 'the comparisons with gdb');
}

/** The same for clang, whose debug information has other forms than gcc's. */
export function hasClang(): boolean {
  return isHere('clang', 'programs compiled by clang');
}

function isHere(tool: string, what: string): boolean {
  try {
    run(tool, '--version');
    return true;
  } catch {
    process.stderr.write(`\n*** ${tool} is not installed: ${what} are LEFT OUT ***\n\n`);
    return false;
  }
}

/**
 * Runs a Python script in gdb on one binary. The script finds what it is asked in `asked` and leaves in `answer` what
 * this returns; both are plain JSON.
 */
export function gdbPython(binary: string, script: string, asked: unknown): unknown {
  const [askedFile = '', answerFile = '', scriptFile = ''] = ['asked.json', 'answer.json', 'ask.py'].map((name) =>
    join(folder, name),
  );
  writeFileSync(askedFile, JSON.stringify(asked));
  const frame = [
    'import gdb, json',
    "for setting in ('width 0', 'debuginfod enabled off', 'confirm off', 'python print-stack full'):",
    "  gdb.execute('set ' + setting)",
    `asked = json.load(open(${JSON.stringify(askedFile)}))`,
    script,
    `json.dump(answer, open(${JSON.stringify(answerFile)}, 'w'))`,
  ];
  writeFileSync(scriptFile, frame.join('\n'));
  rmSync(answerFile, { force: true });
  const { stderr } = spawnSync('gdb', ['-q', '-nx', '-batch', '-x', scriptFile, binary], { encoding: 'utf8' });
  if (!existsSync(answerFile)) throw new Error(`gdb gave no answer: ${stderr}`);
  return JSON.parse(readFileSync(answerFile, 'utf8'));
}

const commandScript = `
answer = []
for command in asked:
  try:
    answer.append(gdb.execute(command, to_string=True))
  except gdb.error as error:
    answer.append("error: " + str(error))
`;

/** Runs many gdb commands on one binary; returns what each printed, or `error: …`. */
export function gdb(binary: string, commands: readonly string[]): string[] {
  return gdbPython(binary, commandScript, commands) as string[];
}
