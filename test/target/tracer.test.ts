// The task that traces: it costs nothing while the target runs, and its end, however it comes, leaves the target whole.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { attach } from '../../src/target/index.js';
import { compilers, compileTarget, delay, runTarget, startTarget } from '../support/targets.js';

const library = join(import.meta.dirname, '..', '..', 'dist', 'src', 'target', 'index.js');
const status = (pid: number) => readFileSync(`/proc/${pid}/status`, 'utf8');
const tracerOf = (pid: number) => Number(/^TracerPid:\t(\d+)$/m.exec(status(pid))?.[1]);

/** The tracer task ends a moment after whoever it served. */
async function untraced(pid: number): Promise<void> {
  for (let patience = 200; tracerOf(pid) !== 0 && patience > 0; patience--) await delay(5);
  expect(tracerOf(pid)).toBe(0);
}

/** Clock ticks of CPU time that a process has used. */
function ticksOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

describe('the tracer task', () => {
  it('uses no CPU while the target computes', async () => {
    const program = await runTarget('threads', ['2', '0']);
    await using target = await attach(program.pid);
    const tracer = tracerOf(program.pid);
    const before = ticksOf(tracer);
    const wakeUps = () => Number(/^voluntary_ctxt_switches:\t(\d+)$/m.exec(status(tracer))?.[1]);
    const wokenBefore = wakeUps();
    await delay(500);
    expect(ticksOf(tracer) - before).toBeLessThanOrEqual(1);
    expect(wakeUps() - wokenBefore).toBeLessThanOrEqual(2);
    expect(target.attached).toBe(true);
  });

  it('killed from outside rejects what is under way, and the target goes on', async () => {
    const program = await runTarget('threads', ['2', '0']);
    const target = await attach(program.pid);
    process.kill(tracerOf(program.pid), 'SIGKILL');
    await delay(50);
    await expect(target.stop()).rejects.toMatchObject({ code: 'FASTPROBE_TRACER_LOST' });
    expect(tracerOf(program.pid)).toBe(0);
    expect(JSON.parse((await program.finish()).last)).toMatchObject({ errors: 0 });
  });

  it('ends with the worker thread that attached', async () => {
    const program = await runTarget('threads', ['2', '0']);
    const victim = join(import.meta.dirname, '..', 'support', 'attach-for-ever.js');
    const worker = new Worker(victim, { argv: [String(program.pid)], stdout: true });
    for (let patience = 200; tracerOf(program.pid) === 0 && patience > 0; patience--) await delay(5);
    await worker.terminate();
    await untraced(program.pid);
    expect(JSON.parse((await program.finish()).last)).toMatchObject({ errors: 0 });
  });

  it('and a wait on shared memory are called off when Node exits', async () => {
    const program = await runTarget('threads', ['1', '0']);
    const script = `
      import { attach } from ${JSON.stringify(pathToFileURL(library).href)};
      const target = await attach(${program.pid});
      await target.stop();
      const region = await target.remote.share(4096);
      for (let i = 0; i < 10; i++) void region.wait(0, 0);
      setTimeout(() => process.exit(9), 50);`;
    const node = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' });
    expect((await once(node, 'exit'))[0]).toBe(9);
    await untraced(program.pid);
    expect(JSON.parse((await program.finish()).last)).toMatchObject({ errors: 0 });
  });

  it('leaves no file descriptor behind', async () => {
    const program = await runTarget('modes', ['wait']);
    const descriptors = () => readdirSync('/proc/self/fd').length;
    const round = async () => {
      await using target = await attach(program.pid);
      await target.stop();
      await target.remote.share(4096);
    };
    await round();
    await delay(50);
    const before = descriptors();
    for (let i = 0; i < 20; i++) await round();
    await delay(50);
    expect(descriptors()).toBeLessThanOrEqual(before + 1);
  });
});

describe('hard targets', () => {
  it('a thread that the kernel does not let stop: said so in time, and everything runs again', async () => {
    const program = await runTarget('modes', ['vfork']);
    await delay(50);
    const target = await attach(program.pid);
    await expect(target.stop({ timeoutMs: 200 })).rejects.toMatchObject({ code: 'FASTPROBE_TARGET_UNRESPONSIVE' });
    program.child.stdin.end();
    expect(await target.exited).toEqual({ exitCode: 4, signal: null });
  });

  it('restartable sequences stay atomic through stops and remote system calls', async () => {
    const program = await runTarget('sequence');
    if (program.first === 'no rseq') return void console.warn('left out: this C library does not register rseq');
    await using target = await attach(program.pid);
    for (let round = 0; round < 100; round++) {
      await target.stop();
      for (const tid of (await target.registers()).keys()) await target.remote.call('gettid', [], { tid });
      await target.resume();
    }
    await target.detach();
    const { counted, added, aborts } = JSON.parse((await program.finish()).last);
    expect(counted).toBe(added);
    expect(aborts).toBeGreaterThan(50);
  });

  it.each(compilers)('built by %s, at -O0 to -O3, are stopped and left as they were', async (compiler) => {
    for (const level of ['-O0', '-O2', '-O3']) {
      const program = await startTarget(compileTarget('threads', [level], compiler), ['4', '2']);
      await using target = await attach(program.pid);
      for (let round = 0; round < 10; round++) {
        await target.stop();
        await target.remote.call('getpid');
        await target.resume();
      }
      await target.detach();
      expect(JSON.parse((await program.finish()).last)).toMatchObject({ errors: 0 });
    }
  });
});
