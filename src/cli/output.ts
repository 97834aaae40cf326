// What the command line prints: for people, or as a line of JSON for each thing that happens.

import { basename } from 'node:path';
import type { Hit, Probe, ProbeSite } from '../probe/probe.js';
import type { Session } from '../probe/session.js';
import type { CapturedValue } from '../probe/values.js';

export interface Totals {
  readonly hits: bigint;
  readonly dropped: bigint;
  readonly faults: bigint;
  readonly faultsBy: ReadonlyMap<string, bigint>;
  readonly seconds: number;
}

export interface Printer {
  ready(session: Session, probes: readonly Probe[]): string;
  hit(hit: Hit): string;
  /** Counts so far, for probes that record nothing; empty when they are not to be shown. */
  progress(totals: Totals): string;
  summary(totals: Totals, ending: string | undefined): string;
}

export const jsonPrinter: Printer = {
  ready: (session, probes) =>
    json({
      type: 'ready',
      pid: session.pid,
      stopMs: session.stopMicroseconds / 1000,
      sites: probes.flatMap(({ sites }) => sites.map(siteFacts)),
    }),
  hit: ({ probe, time, thread, values }) => json({ type: 'hit', probe, time: seconds(time), tid: thread, values }),
  progress: () => '',
  summary: ({ hits, dropped, faults, seconds: elapsed }) =>
    json({ type: 'summary', hits, dropped, faults, seconds: Number(elapsed.toFixed(3)) }),
};

/** A site as JSON shows it. */
export function siteFacts({ address, function: name, file, line, tactic }: ProbeSite) {
  return { address: hex(address), function: name ?? null, file: file ?? null, line: line ?? null, tactic };
}

export const textPrinter: Printer = {
  ready: (session, probes) => {
    const lines = probes.flatMap((probe) => [
      ...probe.sites.map((site) => `probe ${probe.id} at ${describeSite(site)}`),
      ...leftOut(probe),
    ]);
    const leftovers = session.leftoversRemoved;
    if (leftovers > 0)
      lines.unshift(`took out ${leftovers} ${leftovers === 1 ? 'patch' : 'patches'} that a fastprobe left`);
    return [...lines, `process ${session.pid} was stopped for ${(session.stopMicroseconds / 1000).toFixed(2)} ms`].join(
      '\n',
    );
  },
  hit: ({ probe, time, thread, values }) => {
    const pairs = Object.entries(values).map(([name, value]) => `${name} = ${formatValue(value)}`);
    return [clockTime(time), `probe ${probe}`, `thread ${thread}`, ...pairs].join('  ');
  },
  progress: ({ hits, seconds: elapsed }) => `${hits} hits after ${elapsed.toFixed(0)} s`,
  summary: (totals, ending) => {
    const parts = [...totals.faultsBy].map(([expression, count]) => `  ${expression} could not be read ${count} times`);
    const { hits, dropped, faults, seconds: elapsed } = totals;
    const counts = `${hits} hits, ${dropped} dropped, ${faults} faults in ${elapsed.toFixed(1)} s`;
    return [...(ending === undefined ? [] : [ending]), counts, ...parts].join('\n');
  },
};

function leftOut({ leftOut: variables }: Probe): string[] {
  if (variables.length === 0) return [];
  return [`  not shown: ${variables.map(({ name, reason }) => `${name} (${firstLine(reason)})`).join(', ')}`];
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

/** `queue.c:42 in queue_push (0x401234, plain)`. */
export function describeSite({ address, function: name, file, line, tactic }: ProbeSite): string {
  const place = file === undefined || line === undefined ? undefined : `${basename(file)}:${line}`;
  const where = [place, name === undefined ? undefined : `${place === undefined ? '' : 'in '}${name}`];
  return `${where.filter((part) => part !== undefined).join(' ')} (${hex(address)}, ${tactic})`;
}

function formatValue(value: CapturedValue): string {
  return value === null ? '(unreadable)' : String(value);
}

function hex(value: bigint): string {
  return `0x${value.toString(16)}`;
}

/** Seconds since 1970; a double tells microseconds apart. */
function seconds(nanoseconds: bigint): number {
  return Number(nanoseconds / 1000n) / 1e6;
}

/** Local time with microseconds. */
function clockTime(nanoseconds: bigint): string {
  const date = new Date(Number(nanoseconds / 1_000_000n));
  const two = (value: number) => String(value).padStart(2, '0');
  const fraction = String((nanoseconds / 1000n) % 1_000_000n).padStart(6, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${fraction}`;
}

/** A line of JSON. What a number can't hold is written as text. */
export function json(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each !== 'bigint') return each;
    const isSafe = each >= Number.MIN_SAFE_INTEGER && each <= Number.MAX_SAFE_INTEGER;
    return isSafe ? Number(each) : String(each);
  });
}
