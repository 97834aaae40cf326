// Probes in running programs: counted, conditional, capturing; and nothing left behind.

import { describe, expect, it } from 'vitest';
import { address as addressOf } from '../../src/address.js';
import { attach } from '../../src/probe/session.js';
import { readMaps } from '../../src/target/maps.js';
import { readProcessMemory } from '../../src/target/memory-file.js';
import { lineOf, runTarget } from '../support/targets.js';
import { changedCode, ourMappings, startWork } from '../support/work.js';

const builds = [
  ['-O0', '-fPIE', '-pie'],
  ['-O2', '-fPIE', '-pie'],
  ['-O0', '-fno-pie', '-no-pie'],
  ['-O2', '-fno-pie', '-no-pie'],
];
const [usual = []] = builds;
const stepLine = `work.c:${lineOf('work', 'step')}`;

describe.each(builds)('built with %s %s', (...flags) => {
  it('counts every call, and every call that meets a condition', async () => {
    const program = await startWork(flags);
    await using session = await attach(program.pid);
    const all = await session.probe({ at: 'step', capture: 'nothing' });
    const some = await session.probe({ at: stepLine, when: 'i > 900', capture: 'nothing' }).catch((error) => error);
    const counted = await program.go();
    expect(all.summary()).toMatchObject({ hits: BigInt(counted.calls), faults: 0n, dropped: 0n });
    if (flags[0] === '-O0') expect(some.summary().hits).toBe(BigInt(counted.large));
    expect(counted.errors).toBe(0);
  });

  it('survives pointers that are null half of the time, and counts the faults', async () => {
    const program = await startWork(flags);
    await using session = await attach(program.pid);
    const probe = await session.probe({ at: 'find', when: 'p->next->next->id == 7', capture: 'nothing' });
    const counted = await program.go();
    const { hits, faults, faultsBy } = probe.summary();
    expect(hits).toBe(BigInt(counted.finds));
    expect(faults).toBeGreaterThan(10_000n);
    expect([...faultsBy.values()].reduce((sum, count) => sum + count, 0n)).toBe(faults);
    expect(counted.errors).toBe(0);
  });

  it('records values, and loses none that the ring has room for', async () => {
    const program = await startWork(flags, ['4', '5000']);
    await using session = await attach(program.pid);
    const probe = await session.probe({ at: 'step', capture: ['i', 'factor', 'i * factor'] });
    const counted = await program.go();
    await probe.remove();
    const threads = new Set<number>();
    let count = 0;
    for await (const { values, thread, time } of probe.hits()) {
      count += 1;
      threads.add(thread);
      expect(values.factor).toBe(3);
      expect(values['i * factor']).toBe((values.i as number) * 3);
      expect(Math.abs(Number(time / 1_000_000n) - Date.now())).toBeLessThan(60_000);
    }
    expect(count + Number(probe.summary().dropped)).toBe(counted.calls);
    expect(threads.size).toBe(4);
    expect(probe.summary().dropped).toBe(0n);
  });

  it('takes out all it has put in', async () => {
    const program = await startWork(flags);
    const before = readMaps(program.pid).length;
    {
      await using session = await attach(program.pid);
      await session.probe({ at: 'step', when: 'i > 5 && factor != 0', capture: ['i'] });
      await session.probe({ at: 'find', when: 'p->id == 3' });
      expect(changedCode(program.pid, program.path)).not.toEqual([]);
      expect(ourMappings(program.pid)).not.toEqual([]);
    }
    expect(changedCode(program.pid, program.path)).toEqual([]);
    expect(ourMappings(program.pid)).toEqual([]);
    expect(readMaps(program.pid).length).toBe(before);
    expect(await program.go()).toMatchObject({ errors: 0 });
  });
});

describe('a probe', () => {
  it('shows the locals when nothing else is asked for', async () => {
    const program = await startWork(usual, ['1', '10']);
    await using session = await attach(program.pid);
    const probe = await session.probe({ at: stepLine });
    await program.go();
    const { value: hit } = await probe.hits().next();
    expect(Object.keys(hit?.values ?? {})).toEqual(['i', 'factor', 'result']);
  });

  it('ends after as many hits as asked for, exactly', async () => {
    const program = await startWork(usual);
    await using session = await attach(program.pid);
    const probe = await session.probe({ at: 'step', maxHits: 17 });
    await program.go();
    await probe.ended;
    let count = 0;
    for await (const _ of probe.hits()) count += 1;
    expect(count).toBe(17);
    expect(probe.summary().hits).toBe(17n);
    expect(changedCode(program.pid, program.path)).toEqual([]);
  });

  it('tells where the sites are and how the jumps were placed', async () => {
    const program = await startWork(usual);
    await using session = await attach(program.pid);
    const { sites } = await session.probe({ at: stepLine, capture: 'nothing' });
    expect(sites[0]).toMatchObject({ function: 'step', line: lineOf('work', 'step') });
    expect(['plain', 'relocate', 'trap']).toContain(sites[0]?.tactic);
    expect(session.stopMicroseconds).toBeGreaterThan(0);
  });

  it('works where no jump fits, by a trap', async () => {
    const program = await startWork(usual, ['4', '2000']);
    await using session = await attach(program.pid);
    const entry = await session.probe({ at: 'count_down', capture: 'nothing' });
    const loop = await session.probe({ at: 'count_down+2', capture: 'nothing' });
    expect(entry.sites[0]?.tactic).toBe('trap');
    expect(entry.sites[0]?.passedOver.map(({ tactic }) => tactic)).toEqual(['plain', 'relocate']);
    expect(loop.sites[0]?.tactic).toBe('relocate');
    const counted = await program.go();
    expect(entry.summary().hits).toBe(BigInt(counted.calls));
    expect(loop.summary().hits).toBe(BigInt(counted.calls) * 3n);
    expect(counted.errors).toBe(0);
  });

  it('is refused where another one has the bytes, or no instruction begins', async () => {
    const program = await startWork(usual);
    await using session = await attach(program.pid);
    await session.probe({ at: 'count_down+2', capture: 'nothing' });
    await expect(session.probe({ at: 'count_down+4' })).rejects.toMatchObject({ code: 'FASTPROBE_SITE_REFUSED' });
    await expect(session.probe({ at: 'step+2' })).rejects.toMatchObject({ code: 'FASTPROBE_NOT_AN_INSTRUCTION' });
    await expect(session.probe({ at: 'stop' })).rejects.toMatchObject({ code: 'FASTPROBE_FUNCTION_UNKNOWN' });
    await expect(session.probe({ at: 'work.c:9999' })).rejects.toMatchObject({ code: 'FASTPROBE_LINE_WITHOUT_CODE' });
    expect(session.probes.length).toBe(1);
  });

  it('is refused in a restartable sequence and in the return from a signal handler', async () => {
    const sequence = await runTarget('sequence');
    await using session = await attach(sequence.pid);
    // The loop that the sequence spins in; gcc gives the line of the whole statement to all of it.
    const { address } = (await session.probe({ at: 'add_one', capture: 'nothing' })).sites[0] ?? { address: 0n };
    const body = readProcessMemory(sequence.pid, addressOf(address), 200);
    const loop = Buffer.from(body.buffer, body.byteOffset, body.length).indexOf(Buffer.of(0xff, 0xc9, 0x75));
    await expect(session.probe({ at: `0x${(address + BigInt(loop)).toString(16)}` })).rejects.toThrow('restartable');
    await expect(session.probe({ at: 'libc.so!__restore_rt' })).rejects.toThrow();
  });
});
