// Tries to make a probed target notice that fastprobe died, and to catch it between two bytes.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { removeLeftovers } from '../../src/probe/leftovers.js';
import { attach } from '../../src/probe/session.js';
import type { ProbeSpec } from '../../src/probe/spec.js';
import { rounds } from '../support/length.js';
import { delay } from '../support/targets.js';
import { changedCode, ourMappings, startWork } from '../support/work.js';

const victim = join(import.meta.dirname, '..', 'support', 'probe-for-ever.js');
const builds = [
  ['-O0', '-fPIE', '-pie'],
  ['-O2', '-fno-pie', '-no-pie'],
];

it.each(builds)(
  'kill -9 of fastprobe at any moment: the target goes on, and another one cleans up (%s)',
  async (...flags) => {
    const program = await startWork(flags, ['4', '0']);
    program.child.stdin.write('\n');
    const count = rounds({ short: 8, long: 100 });
    let cleaned = 0;
    for (let round = 0; round < count; round++) {
      const args = [victim, String(program.pid), String(round)];
      const fastprobe = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      await once(fastprobe.stdout, 'data');
      await delay(((round * 7919) % 1000) / 8);
      fastprobe.kill('SIGKILL');
      await once(fastprobe, 'exit');
      await untraced(program.pid);
      cleaned += await removeLeftovers(program.pid, { whoseOwner: 'is-dead' });
      expect(changedCode(program.pid, program.path)).toEqual([]);
      expect(ourMappings(program.pid)).toEqual([]);
    }
    expect(cleaned).toBeGreaterThan(0);
    program.child.stdin.write('\n');
    expect(JSON.parse(await program.line())).toMatchObject({ errors: 0 });
  },
);

it.each([
  ['-O0', '-fPIE', '-pie'],
  ['-O2', '-fPIE', '-pie'],
  ['-O0', '-fno-pie', '-no-pie'],
  ['-O2', '-fno-pie', '-no-pie'],
])('four threads: hits with and without a condition equal the own count, run after run (%s %s)', async (...flags) => {
  for (let run = 0; run < rounds({ short: 3, long: 20 }); run++) {
    const program = await startWork(flags, ['4', '20000']);
    await using session = await attach(program.pid);
    const all = await session.probe({ at: 'step', capture: 'nothing' });
    const some = await session.probe({ at: 'find', when: 'p->next->next->id == 7', capture: 'nothing' });
    const trapped = await session.probe({ at: 'count_down', when: '$edi == 3', capture: 'nothing' });
    const counted = await program.go();
    expect(all.summary().hits).toBe(BigInt(counted.calls));
    expect(some.summary().hits).toBe(BigInt(counted.finds));
    expect(trapped.summary().hits).toBe(BigInt(counted.calls));
    expect(counted).toMatchObject({ calls: 80_000, errors: 0 });
  }
});

/** The tracer task ends a moment after the process that it served. */
async function untraced(pid: number): Promise<void> {
  for (let patience = 200; patience > 0; patience--) {
    if (/^TracerPid:\t0$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))) return;
    await delay(5);
  }
}

it.each(builds)('in and out a hundred times under four hot threads (%s)', async (...flags) => {
  const program = await startWork(flags, ['4', '0']);
  program.child.stdin.write('\n');
  await using session = await attach(program.pid);
  const count = rounds({ short: 60, long: 2000 });
  for (let round = 0; round < count; round++) {
    const probe = await session.probe(
      [
        { at: 'step', capture: 'nothing' },
        { at: 'find', when: 'p->next->next->id == 7', capture: ['p->id'] },
        { at: 'count_down', capture: 'nothing' },
        { at: 'count_down+2', capture: 'nothing' },
      ][round % 4] as ProbeSpec,
    );
    if (round % 3 === 0) await delay(1);
    await probe.remove();
  }
  await session.close();
  expect(changedCode(program.pid, program.path)).toEqual([]);
  program.child.stdin.write('\n');
  expect(JSON.parse(await program.line())).toMatchObject({ errors: 0 });
});
