// How long the target is held, how fast news from it arrives, and how fast its memory is read.

import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { attach, offsetBy, type Target } from 'fastprobe/target';
import { median, percentile, printTable } from './statistics.js';

const sources = join(import.meta.dirname, '..', '..', 'test', 'targets');
const folder = mkdtempSync(join(tmpdir(), 'fastprobe-bench-'));

type Program = ChildProcessByStdio<Writable, Readable, null>;

/** Compiles and starts a test target, and hands it to `use`; it is killed afterwards. */
async function withProgram(
  name: string,
  args: readonly string[],
  use: (program: Program & { pid: number }) => Promise<void>,
) {
  const path = join(folder, name);
  execFileSync('cc', ['-O1', join(sources, `${name}.c`), '-o', path, '-pthread']);
  const program = spawn(path, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    await once(program.stdout, 'data');
    await use(program as Program & { pid: number });
  } finally {
    program.kill('SIGKILL');
  }
}

const rows: string[][] = [];
/** The 99th percentile is of the bad end: for a rate that is the low one. */
function row(what: string, samples: readonly number[], unit: 'µs' | 'MB/s', expected: string): void {
  const bad = percentile(samples, unit === 'µs' ? 99 : 1);
  rows.push([what, `${median(samples).toFixed(0)} ${unit}`, `${bad.toFixed(0)} ${unit}`, expected]);
}

async function stops(kind: string, args: readonly string[], expected: string): Promise<void> {
  await withProgram('threads', args, async (program) => {
    const held: number[] = [];
    const whole: number[] = [];
    for (let round = 0; round < 300; round++) {
      const start = performance.now();
      const target = await attach(program.pid);
      await target.stop();
      held.push(await target.resume());
      await target.detach();
      whole.push((performance.now() - start) * 1000);
    }
    row(`held by stop/resume, ${kind}`, held, 'µs', expected);
    row(`attach, stop, resume, detach, ${kind}`, whole, 'µs', '');
  });
}

async function eventLatency(): Promise<void> {
  await withProgram('modes', ['traps'], async (program) => {
    await using target = await attach(program.pid);
    await target.reportSignals(true);
    const lines = createInterface(program.stdout)[Symbol.asyncIterator]();
    const latencies: number[] = [];
    for (let round = 0; round < 500; round++) {
      const arrived = new Promise<bigint>((resolve) => target.once('signal', () => resolve(process.hrtime.bigint())));
      program.stdin.write('x');
      // The program tells when it ran into the trap, on the same clock.
      const [seen, line] = await Promise.all([arrived, lines.next()]);
      latencies.push(Number(seen - BigInt(line.value)) / 1000);
    }
    row('SIGTRAP in the target to JavaScript', latencies, 'µs', '< 300');
  });
}

async function reads(): Promise<void> {
  await withProgram('modes', ['wait'], async (program) => {
    await using target: Target = await attach(program.pid);
    await target.stop();
    const size = 64 << 20;
    const place = await target.remote.mmap(size);
    await target.resume();
    await target.write(place, new Uint8Array(size).fill(1));
    const measure = async (count: number, bytes: number, read: (round: number) => Promise<unknown>) => {
      const rates: number[] = [];
      for (let round = 0; round < count; round++) {
        const start = performance.now();
        await read(round);
        rates.push(bytes / 1e6 / ((performance.now() - start) / 1000));
      }
      return rates;
    };
    const megabyte = await measure(200, 1 << 20, (round) => target.read(offsetBy(place, (round % 64) << 20), 1 << 20));
    row('read 1 MB', megabyte, 'MB/s', '> 1000');
    row('read 64 MB', await measure(10, size, () => target.read(place, size)), 'MB/s', '> 1000');
    const ranges = Array.from({ length: 10_000 }, (_, i) => ({
      address: offsetBy(place, (i * 7919 * 8) % (size - 8)),
      length: 8,
    }));
    const times = (await measure(50, 10_000, () => target.readMany(ranges))).map((rate) => 10_000 / rate);
    row('read 10,000 scattered words', times, 'µs', '');
  });
}

export async function run(): Promise<void> {
  try {
    await stops('8 sleeping threads', ['0', '0', '7'], '< 500');
    await stops('8 busy threads', ['8', '0'], '< 500');
    await stops('8 threads, 4 making others', ['8', '4'], '');
    await eventLatency();
    await reads();
  } finally {
    rmSync(folder, { recursive: true });
  }
  printTable(['what', 'median', 'p99', 'expected'], rows);
}
