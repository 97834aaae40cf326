// Traps and faults of ours are ours: the target's own handlers see only its own, whenever they were installed.

import { describe, expect, it } from 'vitest';
import { attach } from '../../src/probe/session.js';
import { compileTarget, startTarget } from '../support/targets.js';

async function startHandlers(mode: string, flags: readonly string[] = ['-O1']) {
  const program = await startTarget(compileTarget('handlers', flags), [mode]);
  const go = async () => {
    program.child.stdin.write('\n');
    return JSON.parse(await program.line());
  };
  return { ...program, go };
}

/** A probe whose condition faults at every call, and one that is a trap. */
async function faultAndTrap(pid: number) {
  const session = await attach(pid);
  const fault = await session.probe({ at: 'look', when: 'p->next->id == 1', capture: 'nothing' });
  const trap = await session.probe({ at: 'count_down', capture: 'nothing' });
  expect(trap.sites[0]?.tactic).toBe('trap');
  return { session, fault, trap };
}

describe.each([
  ['before we came', 'before'],
  ['after we came', 'after'],
])('handlers installed %s', (_, mode) => {
  it('see their own signals and none of ours, with us and after us', async () => {
    const program = await startHandlers(mode);
    const { session, fault, trap } = await faultAndTrap(program.pid);
    expect(await program.go()).toEqual({ calls: 2000, faults: 200, traps: 200, errors: 0 });
    expect(fault.summary()).toMatchObject({ hits: 0n, faults: 2000n });
    expect(trap.summary().hits).toBe(2000n);
    await session.close();
    expect(await program.go()).toEqual({ faults: 210, traps: 210, errors: 0 });
  });
});

describe('without a handler', () => {
  it.each([
    ['a bad pointer', 'fault', 'SIGSEGV'],
    ['a signal sent to itself', 'raise', 'SIGSEGV'],
    ['a breakpoint', 'trap', 'SIGTRAP'],
    ['a second fault after SA_RESETHAND', 'once', 'SIGSEGV'],
  ])('%s still ends the program', async (_, mode, signal) => {
    const program = await startHandlers(mode);
    await faultAndTrap(program.pid);
    program.child.stdin.write('\n');
    expect(await program.finish()).toMatchObject({ exitCode: null, signal });
  });

  it('a signal that the program ignores is ignored', async () => {
    const program = await startHandlers('ignore');
    const { session } = await faultAndTrap(program.pid);
    expect(await program.go()).toMatchObject({ calls: 1, errors: 0 });
    await session.close();
  });
});
