// How long it takes, and how much memory, to open a large binary and ask the first questions of it.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { openBinary } from '../src/binary/binary.js';
import { median, percentile, printTable } from './statistics.js';

const folder = mkdtempSync(join(tmpdir(), 'fastprobe-bench-'));
const rounds = 7;

/** A program of many functions with locals, in several units, with all its debug information. */
function makeLarge(): string {
  const units = Array.from({ length: 8 }, (_, unit) => {
    const functions = Array.from(
      { length: 2000 },
      (_, index) => `
struct s${index} { int a; long b; struct s${index} *next; };
int f${unit}_${index}(struct s${index} *p, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) {
    long each = p->b * i;
    sum += (int)each + p->a;
  }
  return p->next ? sum : -sum;
}`,
    );
    const source = join(folder, `unit${unit}.c`);
    writeFileSync(source, functions.join('\n') + (unit === 0 ? '\nint main(void) { return 0; }\n' : '\n'));
    return source;
  });
  const path = join(folder, 'large');
  execFileSync('cc', ['-g', '-O1', ...units, '-o', path]);
  return path;
}

/** Asks each question of a binary that was opened anew, `rounds` times; memory is what the first round added. */
function measure(path: string, file: string | undefined, line: number, name: string, rows: string[][]): void {
  const questions = ['open', 'sites of a line', 'its variables', 'frame address', 'code range', 'function by name'];
  const times = new Map<string, number[]>(questions.map((question) => [question, []]));
  const before = process.memoryUsage().rss;
  let added = 0;
  for (let round = 0; round < rounds; round++) {
    const timed = <T>(question: string, ask: () => T): T => {
      const start = performance.now();
      const answer = ask();
      times.get(question)?.push(performance.now() - start);
      return answer;
    };
    const binary = timed('open', () => openBinary(path));
    const site =
      file === undefined ? undefined : timed('sites of a line', () => binary.sitesOfLine(file, line)).sites[0];
    const [found] = timed('function by name', () => binary.functionsNamed(name));
    const at = site?.address ?? found?.entry;
    if (site !== undefined) timed('its variables', () => binary.variablesAt(site.address));
    if (at !== undefined) {
      timed('code range', () => binary.codeRangeAt(at));
      timed('frame address', () => binary.cfaAt(at));
    }
    if (round === 0) added = process.memoryUsage().rss - before;
  }
  const size = `${(statSync(path).size / 1e6).toFixed(0)} MB`;
  for (const [question, samples] of times) {
    if (samples.length === 0) continue;
    const show = (value: number) => `${value.toFixed(1)} ms`;
    rows.push([`${basename(path)} (${size}): ${question}`, show(median(samples)), show(percentile(samples, 99))]);
  }
  rows.push([`${basename(path)} (${size}): memory`, `${(added / 1e6).toFixed(0)} MB`, '']);
}

/** FASTPROBE_BENCH_BINARY=path,file,line,function adds a binary of yours. */
export async function run(): Promise<void> {
  try {
    const rows: string[][] = [];
    measure(makeLarge(), 'unit5.c', 6000, 'f5_700', rows);
    measure(process.execPath, undefined, 0, 'main', rows);
    const [path, file, line, name] = (process.env.FASTPROBE_BENCH_BINARY ?? '').split(',');
    if (path && file && line && name) measure(path, file, Number(line), name, rows);
    printTable(['first questions of a binary', 'median', 'p99'], rows);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
