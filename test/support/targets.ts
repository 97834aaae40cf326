// Compiles the C programs in test/targets, starts them, and sees to it that none outlives its test.

import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { onTestFinished } from 'vitest';
import { isInstalled } from './installed.js';

const sources = join(import.meta.dirname, '..', 'targets');
const output = join(import.meta.dirname, '..', '..', 'build', 'test-targets');

/** The compilers that this machine has; gcc is one of them. What is missing, the set-up of all tests says. */
export const compilers = ['gcc', 'clang'].filter(isInstalled);

/** Compiles test/targets/`name`.c once per set of flags; returns the program's path. */
export function compileTarget(name: string, flags: readonly string[] = ['-O1'], compiler = 'gcc'): string {
  return compileSource(join(sources, `${name}.c`), flags, compiler);
}

/** Compiles a C file once per set of flags; returns the program's path. Safe in parallel. */
export function compileSource(source: string, flags: readonly string[], compiler = 'gcc'): string {
  const contents = [readFileSync(source), readFileSync(join(sources, 'target.h'))];
  const key = [compiler, ...flags, ...contents]
    .reduce((hash, part) => hash.update(part), createHash('sha1'))
    .digest('hex');
  const program = join(output, `${basename(source, '.c')}-${key.slice(0, 12)}`);
  if (existsSync(program)) return program;
  mkdirSync(output, { recursive: true });
  const unfinished = `${program}.${process.pid}`;
  execFileSync(compiler, ['-g', '-Wall', '-Wextra', ...flags, source, '-o', unfinished, '-pthread'], {
    stdio: 'inherit',
  });
  renameSync(unfinished, program);
  return program;
}

/** The number of the line of test/targets/`name`.c that has the comment `LINE mark`. */
export function lineOf(name: string, mark: string): number {
  const lines = readFileSync(join(sources, `${name}.c`), 'utf8').split('\n');
  return lines.findIndex((line) => line.includes(`LINE ${mark}`)) + 1;
}

export type RunningTarget = {
  pid: number;
  child: ChildProcessByStdio<Writable, Readable, null>;
  /** The next line of its output. */
  line(): Promise<string>;
  /** Closes its input, and waits for its end and the last line it printed. */
  finish(): Promise<{ last: string; exitCode: number | null; signal: string | null }>;
};

/** Starts a program of test/targets and waits for its first line. It is killed when the test ends, however it ends. */
export async function startTarget(
  program: string,
  args: readonly string[] = [],
): Promise<RunningTarget & { first: string }> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const exit = new Promise<{ exitCode: number | null; signal: string | null }>((resolve) => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }));
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  let last = '';
  const line = async () => {
    const next = await lines.next();
    if (next.done) throw new Error(`${program} ended without a further line`);
    last = next.value;
    return last;
  };
  const finish = async () => {
    child.stdin.end();
    for (let next = await lines.next(); !next.done; next = await lines.next()) last = next.value;
    return { last, ...(await exit) };
  };
  const first = await line();
  return { pid: child.pid ?? 0, child, line, finish, first };
}

/** Compiles and starts. */
export async function runTarget(name: string, args: readonly string[] = []) {
  return startTarget(compileTarget(name), args);
}

export const delay = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));
