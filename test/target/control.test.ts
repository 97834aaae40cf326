// Attaching, stopping, looking, changing and letting go.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { address, attach, launch, offsetBy, PROT } from '../../src/target/index.js';
import { buildIdOf } from '../../src/target/maps.js';
import { compileTarget, delay, runTarget, startTarget } from '../support/targets.js';

const states = (target: { threads(): { state: string }[] }) => target.threads().map((thread) => thread.state);

describe('attach', () => {
  it('leaves the target running and stops it when asked', async () => {
    const program = await runTarget('threads', ['4']);
    const target = await attach(program.pid);
    await target.stop();
    expect(states(target).every((state) => state === 't')).toBe(true);
    expect((await target.registers()).size).toBeGreaterThanOrEqual(5);
    expect(await target.resume()).toBeGreaterThan(0);
    await target.detach();
    const { last, exitCode } = await program.finish();
    expect(JSON.parse(last)).toMatchObject({ errors: 0 });
    expect(exitCode).toBe(0);
  });

  it('is undone by leaving an await using block, also one left by an error', async () => {
    const program = await runTarget('threads', ['2']);
    const failing = async () => {
      await using target = await attach(program.pid);
      await target.stop();
      throw new Error('on purpose');
    };
    await expect(failing()).rejects.toThrow('on purpose');
    expect(JSON.parse((await program.finish()).last)).toMatchObject({ errors: 0 });
  });

  it('works on a process whose main thread has ended', async () => {
    const program = await runTarget('modes', ['leaderless']);
    const target = await attach(program.pid);
    await target.stop();
    expect((await target.registers()).size).toBe(1);
    await target.resume();
    program.child.stdin.end();
    expect(await target.exited).toEqual({ exitCode: 7, signal: null });
  });

  it('can be given up by an AbortSignal', async () => {
    const program = await runTarget('modes', ['wait']);
    await expect(attach(program.pid, { signal: AbortSignal.abort() })).rejects.toThrow('abort');
    await using target = await attach(program.pid);
    expect(target.attached).toBe(true);
  });
});

describe('signals', () => {
  it('a process stopped by SIGSTOP stays stopped after detach, and SIGCONT wakes it', async () => {
    const program = await runTarget('threads', ['2']);
    process.kill(program.pid, 'SIGSTOP');
    await delay(20);
    const target = await attach(program.pid);
    await target.stop();
    expect(await target.remote.call('getpid')).toBe(BigInt(program.pid));
    await target.resume();
    await delay(20);
    await target.detach();
    await delay(20);
    expect(states(target).every((state) => state === 'T')).toBe(true);
    process.kill(program.pid, 'SIGCONT');
    expect(JSON.parse((await program.finish()).last)).toMatchObject({ errors: 0 });
  });

  it('SIGSTOP and SIGCONT that arrive while we are attached do what they always do', async () => {
    const program = await runTarget('threads', ['2']);
    const target = await attach(program.pid);
    process.kill(program.pid, 'SIGSTOP');
    await delay(50);
    expect(states(target)).not.toContain('R');
    process.kill(program.pid, 'SIGCONT');
    await delay(50);
    process.kill(program.pid, 'SIGSTOP');
    await target.stop();
    await target.detach();
    await delay(20);
    expect(states(target).every((state) => state === 'T')).toBe(true);
    process.kill(program.pid, 'SIGCONT');
    expect(JSON.parse((await program.finish()).last)).toMatchObject({ errors: 0 });
  });

  it('are reported with sender and number, and still delivered', async () => {
    const program = await runTarget('modes', ['traps']);
    await using target = await attach(program.pid);
    await target.reportSignals(true);
    const signal = once(target, 'signal');
    program.child.stdin.write('x');
    expect((await signal)[0]).toMatchObject({ signal: 'SIGTRAP', tid: program.pid });
    await program.line();
    program.child.stdin.write('\n');
    expect(await program.line()).toBe('1');
  });
});

describe('memory', () => {
  it('reads many ranges at once and says where one ends early', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    const code = target.maps().find((mapping) => mapping.executable && mapping.path.includes('modes-'));
    if (code === undefined) throw new Error('no code');
    const before = offsetBy(code.end, -8);
    const [inside, nowhere, whole] = await target.readMany([
      { address: code.start, length: 16 },
      { address: address(0x10), length: 8 },
      { address: before, length: 8 },
    ]);
    expect([inside?.length, nowhere?.length, whole?.length]).toEqual([16, 0, 8]);
    const stack = target.maps().find((mapping) => mapping.path === '[stack]');
    if (stack === undefined) throw new Error('no stack');
    const [cut] = await target.readMany([{ address: offsetBy(stack.end, -100), length: 200 }]);
    expect(cut?.length).toBe(100);
    await expect(target.read(address(0x10), 8)).rejects.toMatchObject({ code: 'FASTPROBE_MEMORY' });
  });

  it('reads ten thousand scattered words like one big read', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    const libc = target.maps().find((mapping) => mapping.executable && mapping.path.includes('libc'));
    if (libc === undefined) throw new Error('no libc');
    const length = Number(libc.end - libc.start);
    const whole = await target.read(libc.start, length);
    const offsets = Array.from({ length: 10_000 }, (_, i) => (i * 7919) % (length - 8));
    const words = await target.readMany(
      offsets.map((offset) => ({ address: offsetBy(libc.start, offset), length: 8 })),
    );
    const different = offsets.filter(
      (offset, i) => Buffer.compare(words[i] ?? Buffer.of(), whole.subarray(offset, offset + 8)) !== 0,
    );
    expect(different).toEqual([]);
  });

  it('writes to code that the target itself cannot write', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    const code = target.maps().find((mapping) => mapping.executable && mapping.path.includes('modes-'));
    if (code === undefined) throw new Error('no code');
    const original = await target.read(code.start, 16);
    await target.write(code.start, new Uint8Array(16).fill(0x90));
    expect(await target.read(code.start, 16)).toEqual(new Uint8Array(16).fill(0x90));
    await target.write(code.start, original);
    await expect(target.write(address(0x10), Uint8Array.of(1))).rejects.toMatchObject({ code: 'FASTPROBE_MEMORY' });
  });

  it('finds the file behind a mapping, also when it was deleted or replaced', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'fastprobe-'));
    try {
      const original = compileTarget('modes');
      const copy = join(folder, 'copy');
      copyFileSync(original, copy);
      const program = await startTarget(copy, ['wait']);
      await using target = await attach(program.pid);
      const mapping = () => {
        const found = target.maps().find((entry) => entry.path === copy);
        if (found === undefined) throw new Error('not mapped');
        return found;
      };
      const buildId = buildIdOf(original);
      expect(buildId).toMatch(/^[0-9a-f]{40}$/);
      expect(target.fileOf(mapping())).toMatchObject({ state: 'same', buildId });
      rmSync(copy);
      expect(target.fileOf(mapping())).toMatchObject({ state: 'deleted', buildId });
      copyFileSync('/bin/true', copy);
      expect(target.fileOf(mapping())).toMatchObject({ state: 'deleted', buildId });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('registers', () => {
  it('are read and set for all threads in one call', async () => {
    const program = await runTarget('threads', ['4', '0']);
    await using target = await attach(program.pid);
    await target.stop();
    const before = await target.registers();
    const changed = new Map([...before].map(([tid, registers]) => [tid, { ...registers, r15: BigInt(tid) }]));
    await target.setRegisters(changed);
    for (const [tid, registers] of await target.registers()) expect(registers.r15).toBe(BigInt(tid));
    await target.setRegisters(before);
    expect(await target.registers()).toEqual(before);
  });

  it('come with the whole extended state', async () => {
    const program = await runTarget('threads', ['2', '0']);
    await using target = await attach(program.pid);
    await target.stop();
    const [tid] = (await target.registers()).keys();
    if (tid === undefined) throw new Error('no thread');
    const state = await target.extendedState(tid);
    expect(state.length).toBeGreaterThanOrEqual(576);
    const changed = state.slice();
    changed[160] = (changed[160] ?? 0) ^ 0xff; // xmm0
    changed[512] = (changed[512] ?? 0) | 2; // XSTATE_BV: SSE is in use
    await target.setExtendedState(tid, changed);
    expect((await target.extendedState(tid))[160]).toBe(changed[160]);
    await target.setExtendedState(tid, state);
  });
});

describe('remote system calls', () => {
  it('return what the call returns, and its errno by name', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    await target.stop();
    expect(await target.remote.call('getpid')).toBe(BigInt(program.pid));
    expect(await target.remote.raw(3, [999n])).toBe(-9n);
    await expect(target.remote.call('close', [999n])).rejects.toMatchObject({
      code: 'FASTPROBE_REMOTE_CALL',
      message: /EBADF/,
    });
  });

  it('map, protect and unmap memory, and never over something', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    await target.stop();
    const place = await target.remote.mmap(8192);
    await target.write(place, Uint8Array.of(1, 2, 3));
    await expect(target.remote.mmap(4096, { at: place })).rejects.toMatchObject({ message: /EEXIST/ });
    await target.remote.mprotect(place, 4096, PROT.read);
    expect(target.maps().find((mapping) => mapping.start === place)).toMatchObject({ writable: false });
    await target.remote.munmap(place, 8192);
    expect(target.maps().some((mapping) => mapping.start === place)).toBe(false);
    expect(await target.remote.mmap(4096, { at: place })).toBe(place);
  });

  it('give up on a call that blocks, and the thread goes on as before', async () => {
    const program = await runTarget('modes', ['exit']);
    await using target = await attach(program.pid);
    await target.stop();
    const pause = target.remote.raw(34, [], { timeoutMs: 50 });
    await expect(pause).rejects.toMatchObject({ code: 'FASTPROBE_REMOTE_CALL_BLOCKED' });
    await target.resume();
    expect((await program.finish()).exitCode).toBe(3);
  });

  it('are not killed for by a seccomp filter', async () => {
    const program = await runTarget('modes', ['seccomp']);
    await using target = await attach(program.pid);
    await target.stop();
    await target.remote.share(4096);
    await target.detach();
    expect((await program.finish()).exitCode).toBe(0);
  });

  it('need a stopped target', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    await expect(target.remote.call('getpid')).rejects.toMatchObject({ code: 'FASTPROBE_NOT_STOPPED' });
  });
});

describe('a shared region', () => {
  it('shows each side what the other writes', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    await target.stop();
    const region = await target.remote.share(10_000);
    await target.resume();
    const view = new DataView(region.buffer);
    view.setBigUint64(8192, 0x1122334455667788n, true);
    expect(Buffer.from(await target.read(region.addressOf(8192), 8)).readBigUInt64LE()).toBe(0x1122334455667788n);
    await target.write(region.addressOf(16), Uint8Array.of(42));
    expect(view.getUint8(16)).toBe(42);
    expect(target.maps().find((mapping) => mapping.start === region.address)?.path).toContain('fastprobe');
  });

  it('wakes us through a futex without blocking the event loop', async () => {
    const program = await runTarget('modes', ['wait']);
    await using target = await attach(program.pid);
    await target.stop();
    const region = await target.remote.share(4096);
    const words = new Uint32Array(region.buffer);
    expect(await region.wait(0, 1)).toBe(true);
    expect(await region.wait(0, 0, { timeoutMs: 20 })).toBe(false);
    const waiting = region.wait(0, 0);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    await delay(50);
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(5);
    words[0] = 1;
    // The target's own wake-up: FUTEX_WAKE (1) for one waiter.
    expect(await target.remote.raw(202, [region.address, 1n, 1n])).toBe(1n);
    expect(await waiting).toBe(true);
    const abort = new AbortController();
    const given = region.wait(0, 1, { signal: abort.signal });
    abort.abort();
    await expect(given).rejects.toThrow('abort');
    await expect(region.wait(2, 0)).rejects.toMatchObject({ code: 'FASTPROBE_BAD_ARGUMENT' });
  });
});

describe('events', () => {
  it('tell of forks, and the children run on untraced', async () => {
    const program = await runTarget('modes', ['fork']);
    const target = await attach(program.pid);
    const forks: string[] = [];
    target.on('fork', (fork) => forks.push(fork.how));
    program.child.stdin.end();
    expect(await target.exited).toEqual({ exitCode: 6, signal: null });
    expect(forks).toEqual(['fork', 'vfork']);
  });

  it('tell of new threads and their ends', async () => {
    const program = await runTarget('threads', ['2', '1']);
    await using target = await attach(program.pid);
    const [{ newTid }] = await once(target, 'thread');
    for (;;) {
      const [{ tid }] = await once(target, 'thread-exit');
      if (tid === newTid) break;
    }
  });

  it('tell of an exit by a signal', async () => {
    const program = await runTarget('modes', ['abort']);
    const target = await attach(program.pid);
    program.child.stdin.end();
    expect(await target.exited).toEqual({ exitCode: null, signal: 'SIGSEGV' });
    expect(await program.finish()).toMatchObject({ signal: 'SIGSEGV' });
  });

  it('tell of an exec, after which the target is still ours', async () => {
    const program = await runTarget('modes', ['exec']);
    await using target = await attach(program.pid);
    const exec = once(target, 'exec');
    program.child.stdin.write('\n');
    await exec;
    await program.line();
    await target.stop();
    expect(await target.remote.call('getpid')).toBe(BigInt(program.pid));
  });

  it('leave child_process alone: exits reach it, with their codes', async () => {
    const program = await runTarget('modes', ['exit']);
    const target = await attach(program.pid);
    for (let round = 0; round < 20; round++) {
      await target.stop();
      const exit = once(spawn('sh', ['-c', 'exit 9']), 'exit');
      await target.resume();
      expect(await exit).toEqual([9, null]);
    }
    program.child.stdin.end();
    expect(await target.exited).toEqual({ exitCode: 3, signal: null });
    expect(await program.finish()).toMatchObject({ exitCode: 3 });
  });
});

describe('launch', () => {
  it('stops at the entry point, with the libraries loaded', async () => {
    const target = await launch([compileTarget('modes'), 'exit'], { stdio: 'ignore' });
    const [registers] = (await target.registers()).values();
    const code = target.maps().find((mapping) => mapping.executable && mapping.path.includes('modes-'));
    expect(registers?.rip).toBeGreaterThanOrEqual(code?.start ?? 0n);
    expect(registers?.rip).toBeLessThan(code?.end ?? 0n);
    expect(target.maps().some((mapping) => mapping.path.includes('libc'))).toBe(true);
    await target.resume();
    expect(await target.exited).toEqual({ exitCode: 3, signal: null });
  });

  it('passes arguments, environment and working folder, and can be let go', async () => {
    const target = await launch(['sh', '-c', 'test "$0,$GREETING,$PWD" = "a b,hello,/usr" && exit 4', 'a b'], {
      env: { GREETING: 'hello', PATH: '/usr/bin:/bin' },
      cwd: '/usr',
      stdio: 'ignore',
    });
    await target.detach();
    expect(await target.exited).toEqual({ exitCode: 4, signal: null });
  });

  it('of what does not exist is refused', async () => {
    await expect(launch(['./no-such-program'])).rejects.toMatchObject({ code: 'FASTPROBE_LAUNCH_FAILED' });
    await expect(launch(['no-such-program'])).rejects.toMatchObject({ message: /not in PATH/ });
    await expect(launch(['true'], { cwd: '/no/such/folder' })).rejects.toMatchObject({ message: /working folder/ });
    await expect(launch([])).rejects.toMatchObject({ code: 'FASTPROBE_BAD_ARGUMENT' });
  });

  it('can be killed', async () => {
    const target = await launch(['sleep', '100'], { stdio: 'ignore' });
    await target.kill();
    expect(await target.exited).toEqual({ exitCode: null, signal: 'SIGKILL' });
  });
});

describe('several targets', () => {
  it('are attached at once and independent of each other', async () => {
    const programs = await Promise.all([1, 2, 3, 4].map(() => runTarget('threads', ['2'])));
    const targets = await Promise.all(programs.map((program) => attach(program.pid)));
    await targets[0]?.stop();
    await programs[3]?.finish();
    await Promise.all(targets.slice(1, 3).map((target) => target.stop()));
    await Promise.all(targets.map((target) => target.detach()));
    for (const program of programs.slice(0, 3))
      expect(JSON.parse((await program.finish()).last)).toMatchObject({ errors: 0 });
  });
});
