// `attach` and `run`: put probes in, show what they see, and take them out at the end, however it comes.

import { once } from 'node:events';
import type { Probe } from '../probe/probe.js';
import type { Session, SessionEnd } from '../probe/session.js';
import type { ProbeSpec } from '../probe/spec.js';
import { badArgument, splitExpressions } from './arguments.js';
import { jsonPrinter, type Printer, type Totals, textPrinter } from './output.js';

export interface WatchOptions {
  readonly at: readonly string[];
  readonly if?: string;
  readonly count?: boolean;
  readonly print?: string;
  /** Milliseconds. */
  readonly for?: number;
  readonly maxHits?: number;
  readonly json?: boolean;
}

/** The probes that the options ask for. */
export function specsOf(options: WatchOptions): ProbeSpec[] {
  if (options.at.length === 0)
    throw badArgument('no location was given', 'say where with --at file.c:42 or --at function');
  if (options.count && options.print !== undefined) {
    throw badArgument('--count records nothing, --print records values', 'give one of them');
  }
  const capture = options.count ? 'nothing' : options.print === undefined ? 'locals' : splitExpressions(options.print);
  return options.at.map((at) => ({
    at,
    capture,
    ...(options.if === undefined ? {} : { when: options.if }),
    ...(options.maxHits === undefined ? {} : { maxHits: options.maxHits }),
  }));
}

const progressMs = 1000;

/** Watches until the user, the clock, the number of hits or the target itself ends it. */
export async function watch(session: Session, options: WatchOptions): Promise<SessionEnd | undefined> {
  const printer = options.json ? jsonPrinter : textPrinter;
  const output = new Output();
  const interruption = interrupted();
  const probes: Probe[] = [];
  for (const spec of specsOf(options)) probes.push(await session.probe(spec));
  await output.line(printer.ready(session, probes));
  await session.start();
  const started = performance.now();
  const totals = () => totalsOf(probes, (performance.now() - started) / 1000);
  const printing = probes.map((probe) => printHits(probe, printer, output));
  const stopProgress = options.count && !options.json ? showProgress(output, printer, totals) : () => {};
  const clock = new AbortController();
  const ending = await Promise.race([
    session.ended,
    Promise.all(probes.map((probe) => probe.ended)),
    interruption.then(() => undefined),
    output.closed,
    elapsed(options.for, clock.signal),
  ]);
  clock.abort();
  stopProgress();
  await session.close();
  const final = totals();
  await Promise.all(printing);
  const end = ending !== undefined && 'reason' in ending ? ending : undefined;
  await output.line(printer.summary(final, describeEnd(end)));
  return end;
}

async function printHits(probe: Probe, printer: Printer, output: Output): Promise<void> {
  for await (const hit of probe.hits()) await output.line(printer.hit(hit));
}

function totalsOf(probes: readonly Probe[], seconds: number): Totals {
  const summaries = probes.map((probe) => probe.summary());
  const sum = (field: 'hits' | 'dropped' | 'faults') => summaries.reduce((total, each) => total + each[field], 0n);
  const faultsBy = new Map<string, bigint>();
  for (const each of summaries) {
    for (const [text, count] of each.faultsBy) faultsBy.set(text, (faultsBy.get(text) ?? 0n) + count);
  }
  return { hits: sum('hits'), dropped: sum('dropped'), faults: sum('faults'), faultsBy, seconds };
}

function showProgress(output: Output, printer: Printer, totals: () => Totals): () => void {
  const timer = setInterval(() => void output.line(printer.progress(totals())), progressMs);
  return () => clearInterval(timer);
}

function describeEnd(end: SessionEnd | undefined): string | undefined {
  if (end === undefined) return undefined;
  if (end.reason === 'exec') return 'the target has replaced its program (exec), and the probes went with the old one';
  if (end.exit === undefined) return 'the target has ended';
  const { exitCode, signal } = end.exit;
  return signal === null ? `the target has ended with exit code ${exitCode}` : `the target was ended by ${signal}`;
}

/** Ctrl-C, or a request to end. */
async function interrupted(): Promise<void> {
  const signals: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  await Promise.race(signals.map((signal) => once(process, signal)));
  // For the summary we need a moment; who presses Ctrl-C again does not want to wait for it, and the target need not suffer.
}

async function elapsed(milliseconds: number | undefined, signal: AbortSignal): Promise<undefined> {
  await new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve());
    if (milliseconds === undefined) return;
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => clearTimeout(timer));
  });
  return undefined;
}

/** Standard output, at the speed at which it takes things. */
class Output {
  /** Resolves when nobody reads it any more (`| head`). */
  readonly closed: Promise<undefined>;
  #isClosed = false;

  constructor() {
    this.closed = new Promise((resolve) => {
      process.stdout.on('error', () => {
        this.#isClosed = true;
        resolve(undefined);
      });
    });
  }

  async line(text: string): Promise<void> {
    if (text === '' || this.#isClosed) return;
    if (!process.stdout.write(`${text}\n`)) await Promise.race([once(process.stdout, 'drain'), this.closed]);
  }
}
