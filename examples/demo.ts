// npm run demo: builds a small program, probes it while it runs, and shows what that costs it.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { attach, formatAddress, type Probe } from 'fastprobe';

const source = join(import.meta.dirname, '..', '..', 'examples', 'queue.c');
const location = 'queue.c:42';
const condition = 'n > cap';
const shown = 5;

/** How many items the program pushes in a second: the middle one of its next figures, without the one under way. */
async function speed(lines: NodeJS.EventEmitter, count = 5): Promise<number> {
  await once(lines, 'line');
  const figures: number[] = [];
  while (figures.length < count) figures.push(Number((await once(lines, 'line'))[0]));
  return figures.sort((a, b) => a - b)[Math.floor(count / 2)] ?? 0;
}

const millions = (rate: number) => `${(rate / 1e6).toFixed(rate < 1e5 ? 3 : 1).padStart(7)} million pushes a second`;

async function showHits(probe: Probe): Promise<void> {
  let count = 0;
  for await (const { time, thread, values } of probe.hits()) {
    const clock = new Date(Number(time / 1_000_000n)).toISOString().slice(11, 23);
    const pairs = Object.entries(values).map(([name, value]) => `${name} = ${value}`);
    console.log(`  ${clock}  thread ${thread}  ${pairs.join('  ')}`);
    count += 1;
    if (count === shown) return;
  }
}

/** The same condition in gdb, for as long as it takes to see the speed. */
async function speedUnderGdb(pid: number, lines: NodeJS.EventEmitter): Promise<number | undefined> {
  let gdb: ChildProcess;
  try {
    execFileSync('which', ['gdb'], { stdio: 'ignore' });
    const commands = [`break ${location} if ${condition}`, 'commands\ncontinue\nend', 'continue'];
    gdb = spawn('gdb', ['-q', '-batch', '-p', String(pid), ...commands.flatMap((command) => ['-ex', command])], {
      stdio: 'ignore',
    });
  } catch {
    return undefined;
  }
  // Two seconds for gdb to read symbols and put its breakpoint in.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const rate = await speed(lines, 1);
  gdb.kill('SIGKILL');
  return rate;
}

const folder = mkdtempSync(join(tmpdir(), 'fastprobe-demo-'));
execFileSync('cc', ['-g', '-O1', source, '-o', join(folder, 'queue'), '-pthread']);
const program = spawn(join(folder, 'queue'), { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface(program.stdout);
try {
  const pid = program.pid ?? 0;
  console.log(`examples/queue.c runs as process ${pid}: three threads push items into queues, as fast as they can.`);
  const before = await speed(lines);

  console.log(`\nA probe at ${location}, if ${condition}, with values, while it runs:`);
  const session = await attach(pid);
  const probe = await session.probe({
    at: location,
    when: condition,
    capture: ['n', 'cap', 'item->id', 'q->head->id'],
  });
  for (const { function: name, address, tactic } of probe.sites) {
    console.log(`  placed in ${name} at ${formatAddress(address)} (${tactic})`);
  }
  console.log(`  the program was stopped for ${(session.stopMicroseconds / 1000).toFixed(1)} ms in all\n`);
  await showHits(probe);
  const during = await speed(lines);
  const { hits, dropped, faults } = probe.summary();
  await session.close();
  console.log(`\nTaken out after ${hits} hits, ${dropped} dropped, ${faults} faults. The program's own speed:\n`);
  const after = await speed(lines);
  console.log(`  before                           ${millions(before)}`);
  console.log(`  with the probe                   ${millions(during)}`);
  console.log(`  after it was taken out           ${millions(after)}`);
  const gdb = await speedUnderGdb(pid, lines);
  if (gdb === undefined) console.log('  with the same condition in gdb   (gdb is not installed)');
  else console.log(`  with the same condition in gdb   ${millions(gdb)}`);
} finally {
  program.kill('SIGKILL');
  rmSync(folder, { recursive: true });
}
process.exit();
