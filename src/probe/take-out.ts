// Taking everything of ours out of a target: patches, handlers, memory. For a session that ends, and for what a dead one left.

import { type Address, offsetBy } from '../address.js';
import { channelName } from '../channel/channel.js';
import { actionSize } from '../channel/layout.js';
import { actionCall, restorerOf, runtimeSpan } from '../patch/runtime.js';
import type { Span } from '../patch/space.js';
import { isInUse } from '../patch/threads.js';
import { overwritten, type Placed, removal } from '../patch/transaction.js';
import { signalSets } from '../target/proc.js';
import type { Target } from '../target/target.js';

/** What there is to take out. */
export interface Belongings {
  readonly patches: readonly Placed[];
  /** Where threads that stand in copies of displaced instructions go on. */
  readonly returns: ReadonlyMap<Address, Address>;
  /** The target's own actions, by signal; empty if ours were never installed. */
  readonly actions: () => ReadonlyMap<number, Uint8Array>;
  /** Where our memory is. */
  readonly mappings: readonly Span[];
  /** Where the runtime's code is; 0 if it was never needed. */
  readonly runtime: Address;
  /** Memory in the target for arguments. */
  readonly scratch: Address;
}

export interface TakenOut {
  /** Patches that somebody else has written over; they were left alone. */
  readonly left: readonly Placed[];
  /** False when a thread was still inside our code: the memory stays, without a use. */
  readonly isMemoryFreed: boolean;
}

const attempts = 40;
const pauseMs = 3;

/** Ends with the target stopped, so that whoever detaches it measures the whole stop. */
export async function takeOut(target: Target, belongings: Belongings): Promise<TakenOut> {
  const { patches, returns, mappings, runtime } = belongings;
  const { mismatches } = await target.operate(removal(patches, returns), 'stay-stopped');
  const left = await overwritten(target, patches, mismatches);
  // A handler that was installed while ours was there, in a program without code of its own to return from handlers.
  const needsOurRestorer = [...belongings.actions().values()].some((action) => {
    const restorer = restorerOf(action);
    return restorer !== undefined && mappings.some(({ low, high }) => restorer >= low && restorer < high);
  });
  let hasHandlers = belongings.actions().size > 0;
  for (let attempt = 1; ; attempt++) {
    // A signal that our code raised and that is still on its way needs our handler.
    if (hasHandlers && !isSignalOnItsWay(target.pid, belongings.actions().keys())) {
      await restoreActions(target, belongings);
      hasHandlers = false;
    }
    if (needsOurRestorer || left.length > 0) return { left, isMemoryFreed: false };
    if (!hasHandlers && !(await isInUse(target, await target.registers(), mappings, runtimeSpan(runtime)))) break;
    if (attempt === attempts) return { left, isMemoryFreed: false };
    await target.resume();
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    await target.operate({ moves: returns }, 'stay-stopped');
  }
  await unmap(target, mappings);
  return { left, isMemoryFreed: true };
}

async function restoreActions(target: Target, { actions, scratch }: Belongings): Promise<void> {
  const restored = [...actions()].map(([signal, bytes], index) => ({
    signal,
    bytes,
    at: offsetBy(scratch, index * actionSize),
  }));
  await target.writeMany(restored.map(({ at, bytes }) => ({ address: at, bytes })));
  await target.remote.batch(restored.map(({ signal, at }) => actionCall(signal, at)));
}

function isSignalOnItsWay(pid: number, signals: Iterable<number>): boolean {
  const ours = [...signals].reduce((set, signal) => set | (1n << BigInt(signal - 1)), 0n);
  return signalSets(pid).some(({ pending }) => (pending & ours) !== 0n);
}

/**
 * Unmaps what is ours in the given ranges, and only that: beside the channel of one who died before its arena was mapped
 * there can be something of the target's.
 */
async function unmap(target: Target, ranges: readonly Span[]): Promise<void> {
  const ours = target.maps().filter(({ start, end, path, inode, writable }) => {
    const isWithin = ranges.some(({ low, high }) => low <= start && end <= high);
    return isWithin && (path === `/memfd:${channelName}` || (inode === 0n && path === '' && !writable));
  });
  await target.remote.batch(ours.map(({ start, end }) => ({ name: 'munmap', args: [start, end - start] })));
}
