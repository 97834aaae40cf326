// What can't be attached to is refused with a code and a hint, and nothing hangs when a target goes away.

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { attach, FastprobeError, launch } from '../../src/target/index.js';
import { processStatus } from '../../src/target/proc.js';
import { explainDenial } from '../../src/target/refusal.js';
import { compileTarget, delay, runTarget } from '../support/targets.js';

/** Runs a small script with the built fastprobe as another user; returns what it prints. */
function asNobody(script: string): string {
  const entry = join(import.meta.dirname, '../../dist/src/index.js');
  const program = `import { attach } from ${JSON.stringify(entry)};
    await attach(process.pid).catch(() => {}); process.setgroups([]); process.setgid(65534); process.setuid(65534); ${script}`;
  return execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' }).trim();
}

const attachAndTell = (pid: number) =>
  `await attach(${pid}).then(() => console.log('attached'), (error) => console.log(error.code + ': ' + error.message));`;

describe('attach refuses', () => {
  it('what is not a process id', async () => {
    for (const pid of [0, -1, 1.5, Number.NaN]) {
      await expect(attach(pid)).rejects.toMatchObject({ code: 'FASTPROBE_BAD_ARGUMENT' });
    }
  });

  it('a process that does not exist', async () => {
    const gone = spawnSync('true').pid;
    await expect(attach(gone)).rejects.toMatchObject({ code: 'FASTPROBE_NO_SUCH_PROCESS', hint: expect.any(String) });
  });

  it('a thread, naming its process', async () => {
    const program = await runTarget('threads', ['2', '0']);
    const thread = readdirSync(`/proc/${program.pid}/task`)
      .map(Number)
      .find((tid) => tid !== program.pid);
    await expect(attach(thread ?? 0)).rejects.toMatchObject({
      message: expect.stringContaining(`process ${program.pid}`),
    });
  });

  it('itself and its ancestors', async () => {
    for (const pid of [process.pid, process.ppid]) {
      await expect(attach(pid)).rejects.toMatchObject({ code: 'FASTPROBE_OWN_PROCESS' });
    }
  });

  it('a zombie', async () => {
    const { first } = await runTarget('modes', ['zombie']);
    await expect(attach(Number(first.split(' ')[1]))).rejects.toMatchObject({ code: 'FASTPROBE_ZOMBIE' });
  });

  it('a kernel thread', async () => {
    const kernelThread = readdirSync('/proc')
      .map(Number)
      .find((pid) => pid > 0 && processStatus(pid)?.isKernelThread);
    if (kernelThread === undefined) return console.warn('left out: no kernel thread is visible here');
    await expect(attach(kernelThread)).rejects.toMatchObject({ code: 'FASTPROBE_KERNEL_THREAD' });
  });

  it('a 32-bit program', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'fastprobe-'));
    const program = join(folder, 'pause32');
    try {
      writeFileSync(join(folder, 'pause.s'), '.globl _start\n_start: mov $29, %eax\nint $0x80\njmp _start\n');
      execFileSync('as', ['--32', join(folder, 'pause.s'), '-o', join(folder, 'pause.o')]);
      execFileSync('ld', ['-m', 'elf_i386', join(folder, 'pause.o'), '-o', program]);
      await expect(launch([program])).rejects.toMatchObject({
        code: expect.stringMatching(/NOT_64_BIT|LAUNCH_FAILED/),
      });
      const child = spawn(program);
      const [event] = await Promise.race([
        once(child, 'spawn').then(() => ['spawn']),
        once(child, 'error').then(() => ['error']),
      ]);
      if (event === 'error') return console.warn('left out: this kernel runs no 32-bit programs');
      await expect(attach(child.pid ?? 0)).rejects.toMatchObject({ code: 'FASTPROBE_NOT_64_BIT' });
      child.kill('SIGKILL');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('a process that is traced already, naming the tracer', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    expect(target.attached).toBe(true);
    await expect(attach(program.pid)).rejects.toMatchObject({
      code: 'FASTPROBE_ALREADY_TRACED',
      message: expect.stringContaining('(fastprobe)'),
    });
  });

  it("another user's process, and one that is protected", async () => {
    if (process.getuid?.() !== 0) return console.warn('left out: needs root to become another user');
    const program = await runTarget('modes', ['wait']);
    expect(asNobody(attachAndTell(program.pid))).toMatch(/^FASTPROBE_PERMISSION: .*belongs to user 0/);
    // The same user now, but the process forbids it.
    const [uid, hidden] = [65534, compileTarget('modes')];
    const child = spawn(hidden, ['undumpable'], { uid, gid: uid, stdio: ['pipe', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    expect(asNobody(attachAndTell(child.pid ?? 0))).toMatch(/^FASTPROBE_PERMISSION: .*(protected|only a parent)/);
    child.kill('SIGKILL');
  });

  it('what Yama forbids, and says how to go on', () => {
    const say = (yamaScope: number, ourUid = 1000) => explainDenial(1, { ourUid, targetUid: 1000, yamaScope });
    expect(say(1)).toMatchObject({
      why: expect.stringContaining('ptrace_scope is 1'),
      hint: expect.stringContaining('launch()'),
    });
    expect(say(2)).toMatchObject({ why: expect.stringContaining('only root') });
    expect(say(3, 0)).toMatchObject({ why: expect.stringContaining('switched off') });
    if (!existsSync('/proc/sys/kernel/yama')) console.warn('left out: this kernel has no Yama to refuse for real');
  });
});

describe('a target that goes away', () => {
  it('rejects everything under way with the same error', async () => {
    const program = await runTarget('threads', ['8']);
    const target = await attach(program.pid);
    const calls = Array.from({ length: 200 }, (_, i) => {
      if (i === 100) process.kill(program.pid, 'SIGKILL');
      return i % 2 === 0 ? target.stop() : target.resume();
    });
    const results = await Promise.allSettled([...calls, target.exited.then(() => target.stop())]);
    const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
    expect(errors.length).toBeGreaterThan(0);
    for (const error of errors) expect(error).toMatchObject({ code: 'FASTPROBE_TARGET_EXITED' });
    expect(errors.every((error) => error instanceof FastprobeError)).toBe(true);
    await target.detach();
  });

  it('is noticed while a remote system call runs in it', async () => {
    const program = await runTarget('modes', ['wait']);
    const target = await attach(program.pid);
    await target.stop();
    const pause = target.remote.raw(34, [], { timeoutMs: 20_000 });
    await delay(30);
    process.kill(program.pid, 'SIGKILL');
    await expect(pause).rejects.toMatchObject({ code: 'FASTPROBE_TARGET_EXITED' });
  });

  it('by exec rejects what was asked of the old program', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    await target.stop();
    // The target calls exec by our own hand: execve of a file that its own memory names.
    const path = await target.remote.mmap(4096);
    await target.write(path, Buffer.from('/bin/sleep\0'));
    await target.write((path + 64n) as typeof path, Buffer.from('100\0'));
    const argv = BigUint64Array.of(path, path + 64n, 0n);
    await target.write((path + 128n) as typeof path, new Uint8Array(argv.buffer));
    const exec = target.remote.raw(59, [path, path + 128n, 0n]);
    await expect(exec).rejects.toMatchObject({ code: 'FASTPROBE_TARGET_EXECED' });
    expect(readFileSync(`/proc/${program.pid}/comm`, 'utf8').trim()).toBe('sleep');
    await target.detach();
  });

  it('keeps rejecting after detach', async () => {
    const program = await runTarget('modes', ['wait']);
    const target = await attach(program.pid);
    await target.detach();
    await target.detach();
    await expect(target.stop()).rejects.toMatchObject({ code: 'FASTPROBE_NOT_ATTACHED' });
  });
});
