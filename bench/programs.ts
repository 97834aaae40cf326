// Programs that benchmarks measure: compiling, starting and listening to them.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';

/** The package's own folder, seen from dist/bench. */
export const root = join(import.meta.dirname, '..', '..');

/** A folder for compiled programs, removed by `end`. */
export class Workshop {
  readonly #folder = mkdtempSync(join(tmpdir(), 'fastprobe-bench-'));

  compile(source: string, flags: readonly string[]): string {
    const program = join(this.#folder, `${basename(source, '.c')}${flags.join('')}`);
    execFileSync('cc', ['-g', ...flags, join(root, source), '-o', program, '-pthread']);
    return program;
  }

  end(): void {
    rmSync(this.#folder, { recursive: true });
  }
}

/** A program that prints, for each round of its work, a figure and when the round began (CLOCK_MONOTONIC, nanoseconds). */
export class Meter {
  readonly pid: number;
  readonly #child: ChildProcess;
  #take: (figure: number, began: number) => void = () => {};

  constructor(program: string, args: readonly string[] = []) {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child = child;
    this.pid = child.pid ?? 0;
    createInterface(child.stdout).on('line', (line) => {
      const [figure, began] = line.split(' ').map(Number);
      this.#take(figure ?? 0, began ?? 0);
    });
  }

  /** The figures of the next `count` rounds that begin after now. */
  async next(count: number): Promise<number[]> {
    const now = Number(process.hrtime.bigint());
    const figures: number[] = [];
    await new Promise<void>((resolve) => {
      this.#take = (figure, began) => {
        if (began > now) figures.push(figure);
        if (figures.length >= count) resolve();
      };
    });
    this.#take = () => {};
    return figures.slice(0, count);
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }
}

export function isInstalled(tool: string): boolean {
  try {
    execFileSync('which', [tool], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
