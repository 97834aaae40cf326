// What a conditional probe that never hits costs in a loop of a million iterations: fastprobe, a trampoline written by hand, and
// gdb's conditional breakpoint.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { attach } from 'fastprobe';
import { isInstalled, Meter, root, Workshop } from './programs.js';
import { median, printTable } from './statistics.js';

const source = 'bench/programs/loop.c';
const condition = 'i<0 || i>1000000';
const line =
  readFileSync(join(root, source), 'utf8')
    .split('\n')
    .findIndex((text) => text.includes('LINE store')) + 1;
const location = `loop.c:${line}`;
const million = '1000000';

/** Rounds without and with the probe in turn, so that what else the machine does falls on both. */
async function withFastprobe(program: string): Promise<{ without: number; with: number; tactic: string }> {
  const meter = new Meter(program, [million]);
  const without: number[] = [];
  const probed: number[] = [];
  let tactic = '';
  try {
    for (let turn = 0; turn < 8; turn++) {
      without.push(...(await meter.next(8)));
      await using session = await attach(meter.pid);
      const probe = await session.probe({ at: location, when: condition, capture: 'nothing' });
      tactic = probe.sites.map((site) => site.tactic).join(', ');
      probed.push(...(await meter.next(8)));
      if (probe.summary().hits > 0n) throw new Error('the condition never holds, and yet there was a hit');
    }
  } finally {
    meter.end();
  }
  return { without: median(without), with: median(probed), tactic };
}

async function byHand(program: string): Promise<number> {
  const meter = new Meter(program, [million, 'hand']);
  try {
    return median(await meter.next(60));
  } finally {
    meter.end();
  }
}

/** With fewer iterations: a million would take a minute. */
async function withGdb(program: string): Promise<number | undefined> {
  if (!isInstalled('gdb')) return undefined;
  const meter = new Meter(program, ['2000']);
  const commands = [`break ${location} if ${condition}`, 'continue'].flatMap((command) => ['-ex', command]);
  const gdb = spawn('gdb', ['-q', '-batch', '-p', String(meter.pid), ...commands], { stdio: 'ignore' });
  try {
    // Until gdb has put its breakpoint in, rounds are quick.
    let rounds = await meter.next(2);
    while (median(rounds) < 1000) rounds = await meter.next(2);
    return median(await meter.next(5));
  } finally {
    gdb.kill('SIGKILL');
    meter.end();
  }
}

export async function run(): Promise<void> {
  const workshop = new Workshop();
  const rows: string[][] = [];
  const ns = (value: number) => `${value.toFixed(2)} ns`;
  try {
    for (const level of ['-O0', '-O1']) {
      const program = workshop.compile(source, [level]);
      const probe = await withFastprobe(program);
      const hand = await byHand(program);
      const gdb = await withGdb(program);
      const added = probe.with - probe.without;
      rows.push([`${level}: one iteration`, ns(probe.without), '', '']);
      rows.push([`${level}: fastprobe (${probe.tactic})`, ns(probe.with), ns(added), '']);
      rows.push([`${level}: written by hand`, ns(hand), ns(hand - probe.without), '']);
      if (gdb === undefined) rows.push([`${level}: gdb`, 'not installed', '', '']);
      else {
        const times = (gdb - probe.without) / Math.max(added, 0.01);
        rows.push([`${level}: gdb`, ns(gdb), ns(gdb - probe.without), `${times.toFixed(0)} × fastprobe`]);
      }
    }
  } finally {
    workshop.end();
  }
  printTable([`array[i] = i, if ${condition}`, 'per iteration', 'added', ''], rows);
}
