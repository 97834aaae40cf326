// Starting a program under our control.

import { accessSync, closeSync, constants, openSync, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { address } from '../address.js';
import { FastprobeError } from '../errors.js';
import { native } from './native-errors.js';
import { auxiliaryValue, elfClass } from './proc.js';
import { openNativeTarget, Target } from './target.js';

/** `'inherit'` shares ours, `'ignore'` is /dev/null, a number is a file descriptor of ours. */
export type Stdio = 'inherit' | 'ignore' | number;

export interface LaunchOptions {
  /** The environment; ours if not given. */
  env?: NodeJS.ProcessEnv;
  /** The working folder; ours if not given. */
  cwd?: string;
  /** One for all of stdin, stdout and stderr, or one each. */
  stdio?: Stdio | readonly [Stdio, Stdio, Stdio];
  signal?: AbortSignal;
}

const AT_ENTRY = 9;
const entryTimeoutMs = 60_000;

/**
 * Starts a program and stops it at its entry point: its libraries are loaded, nothing of its own has run.
 *
 * @example
 * await using target = await launch(['sleep', '0.1']);
 * await target.resume();
 * console.log(await target.exited);
 */
export async function launch(argv: readonly string[], options: LaunchOptions = {}): Promise<Target> {
  const [program] = argv;
  if (program === undefined || argv.some((argument) => typeof argument !== 'string' || argument.includes('\0'))) {
    throw new FastprobeError('FASTPROBE_BAD_ARGUMENT', 'argv must be a list of strings, the program first', {
      hint: "for example launch(['./server', '--port', '80'])",
    });
  }
  options.signal?.throwIfAborted();
  const env = options.env ?? process.env;
  const folder = resolve(options.cwd ?? '.');
  const file = findProgram(program, env, folder);
  const environment = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  const { native: nativeTarget, events } = openNativeTarget();
  const stdio = openStdio(options.stdio ?? 'inherit');
  let pid: number;
  try {
    pid = await native(nativeTarget.launch(file, [...argv], environment, folder, stdio.descriptors));
  } finally {
    stdio.close();
  }
  try {
    if (elfClass(pid) === 1) {
      throw new FastprobeError('FASTPROBE_NOT_64_BIT', `${file} is a 32-bit program`, {
        hint: 'build the program for x86-64',
      });
    }
    await native(nativeTarget.runTo(address(auxiliaryValue(pid, AT_ENTRY) ?? 0n), entryTimeoutMs));
    options.signal?.throwIfAborted();
  } catch (error) {
    await nativeTarget.kill(9).catch(() => {}); // It may have ended by itself, which is why we are here.
    throw error;
  }
  return new Target(nativeTarget, pid, events);
}

/** As a shell does: a name with a slash is a path, any other is looked up in PATH. */
function findProgram(program: string, env: NodeJS.ProcessEnv, folder: string): string {
  const candidates = program.includes('/')
    ? [resolve(folder, program)]
    : (env.PATH ?? '/usr/bin:/bin').split(delimiter).map((entry) => join(resolve(folder, entry), program));
  const found = candidates.find((candidate) => isExecutableFile(candidate));
  if (found !== undefined) return found;
  const where = program.includes('/') ? 'there is no such executable file' : 'it is not in PATH';
  throw new FastprobeError('FASTPROBE_LAUNCH_FAILED', `cannot launch '${program}': ${where}`, {
    hint: program.includes('/') ? 'check the path and the permissions' : 'give the path of the program',
  });
}

function isExecutableFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function openStdio(stdio: Stdio | readonly [Stdio, Stdio, Stdio]): { descriptors: number[]; close: () => unknown } {
  const each = typeof stdio === 'string' || typeof stdio === 'number' ? [stdio, stdio, stdio] : stdio;
  const opened: number[] = [];
  const descriptors = each.map((entry, index) => {
    if (entry === 'inherit') return index;
    if (typeof entry === 'number') return entry;
    const descriptor = openSync('/dev/null', index === 0 ? 'r' : 'w');
    opened.push(descriptor);
    return descriptor;
  });
  return { descriptors, close: () => opened.map(closeSync) };
}
