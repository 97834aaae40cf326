// Tries to make the target notice us: threads that come and go, signals by the thousand, kill -9 at any moment.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { attach } from '../../src/target/index.js';
import { rounds } from '../support/length.js';
import { compileTarget, delay, runTarget } from '../support/targets.js';

it('64 threads, half of them making others: attach, stop, read, detach; no work and no signal is lost', async () => {
  const program = await runTarget('threads', ['64', '32']);
  const sender = spawn(compileTarget('sender'), [String(program.pid), '10000'], { stdio: 'inherit' });
  const sent = once(sender, 'exit');
  const count = rounds({ short: 60, long: 400 });
  for (let round = 0; round < count; round++) {
    const target = await attach(program.pid);
    await target.stop();
    expect((await target.registers()).size).toBeGreaterThanOrEqual(65);
    await target.detach();
    expect(target.threads().map((thread) => thread.state)).not.toContain('t');
  }
  expect((await sent)[0]).toBe(0);
  await delay(200);
  const result = JSON.parse((await program.finish()).last);
  // The values are 1 to 10,000: their sum shows that each arrived with its own.
  expect(result).toMatchObject({ errors: 0, signals: 10_000, signalSum: 50_005_000 });
  expect(result.created).toBeGreaterThan(count);
});

it('remote system calls into a target that sleeps, computes and blocks by turns change nothing it sees', async () => {
  const program = await runTarget('turns');
  await using target = await attach(program.pid);
  const count = rounds({ short: 1000, long: 5000 });
  for (let call = 0; call < count; call++) {
    await target.stop();
    const tids = [...(await target.registers()).keys()];
    const tid = tids[call % tids.length] ?? program.pid;
    expect(await target.remote.call('gettid', [], { tid })).toBe(BigInt(tid));
    expect(await target.remote.raw(3, [999n], { tid })).toBe(-9n);
    await target.resume();
    if (call % 3 === 0) await delay(1);
  }
  await target.detach();
  const result = JSON.parse((await program.finish()).last);
  expect(result.errors).toBe(0);
  expect(result.turns).toBeGreaterThan(10);
});

it('kill -9 of Node at random moments: the target goes on and its work is right', async () => {
  const program = await runTarget('threads', ['8', '4']);
  const victim = join(import.meta.dirname, '..', 'support', 'attach-for-ever.js');
  const count = rounds({ short: 25, long: 150 });
  for (let round = 0; round < count; round++) {
    const node = spawn(process.execPath, [victim, String(program.pid)], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(node.stdout, 'data');
    await delay(((round * 7919) % 200) / 10);
    node.kill('SIGKILL');
    await once(node, 'exit');
    // The tracer task ends a moment after Node.
    for (let patience = 100; isTracedOrStopped(program.pid) && patience > 0; patience--) await delay(5);
    expect(isTracedOrStopped(program.pid)).toBe(false);
  }
  const { last, exitCode } = await program.finish();
  expect(JSON.parse(last)).toMatchObject({ errors: 0 });
  expect(exitCode).toBe(0);
});

function isTracedOrStopped(pid: number): boolean {
  const status = execFileSync('cat', [`/proc/${pid}/status`], { encoding: 'utf8' });
  return !/^TracerPid:\t0$/m.test(status) || /^State:\t[tT]/m.test(status);
}
