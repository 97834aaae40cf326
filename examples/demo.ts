// npm run demo: builds a small C program, starts it, attaches, shows what it does, changes it, and leaves.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { address, attach, offsetBy } from 'fastprobe/target';

const folder = mkdtempSync(join(tmpdir(), 'fastprobe-demo-'));
const program = join(folder, 'counter');
const source = join(import.meta.dirname, '..', '..', 'examples', 'counter.c');
execFileSync('cc', ['-g', '-O1', source, '-o', program, '-pthread']);
const child = spawn(program, { stdio: ['ignore', 'pipe', 'inherit'] });
try {
  const [line] = await once(child.stdout, 'data');
  const [step, counters] = String(line).trim().split(' ').map(address);
  if (child.pid === undefined || step === undefined || counters === undefined)
    throw new Error('the program did not start');
  await show(child.pid, step, counters);
} finally {
  child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
}

async function show(pid: number, step: bigint, counters: bigint): Promise<void> {
  console.log(`A program with four threads runs as process ${pid}. Attaching.\n`);
  await using target = await attach(pid);

  const readCounters = async () => {
    const ranges = [0, 8, 16].map((offset) => ({ address: offsetBy(address(counters), offset), length: 8 }));
    return (await target.readMany(ranges)).map((bytes) => Buffer.from(bytes).readBigInt64LE());
  };
  await target.stop();
  const threads = await target.registers();
  const maps = target.maps();
  const heldFor = await target.resume();
  for (const [tid, { rip, orig_rax }] of threads) {
    const mapping = maps.find((entry) => entry.start <= rip && rip < entry.end);
    const place = `${mapping?.path.split('/').at(-1)}+0x${(rip - (mapping?.start ?? 0n) + (mapping?.offset ?? 0n)).toString(16)}`;
    const doing = BigInt.asIntN(64, orig_rax) >= 0n ? `in system call ${orig_rax}` : 'computing';
    console.log(`  thread ${tid}  at ${place.padEnd(24)} ${doing}`);
  }
  console.log(`\nAll threads were stopped for ${heldFor.toFixed(0)} µs, and run again.`);

  const before = await readCounters();
  await delay(200);
  const after = await readCounters();
  console.log(`Its counters, read while it runs: ${before.join(', ')}; 200 ms later: ${after.join(', ')}`);

  await target.write(address(step), Buffer.from(BigInt64Array.of(1000n).buffer));
  await delay(200);
  console.log(`With the variable 'step' set to 1000: ${(await readCounters()).join(', ')}`);

  await target.stop();
  console.log(`getpid() run inside it says ${await target.remote.call('getpid')}.`);
  await target.detach();
  console.log(
    `Detached; its threads: ${target
      .threads()
      .map((thread) => thread.state)
      .join(' ')}`,
  );
}
