// Changing code: what is done while the target is stopped, and in which order, so that a death of fastprobe at any moment
// leaves code that works.

import { type Address, formatAddress } from '../address.js';
import { FastprobeError } from '../errors.js';
import type { Target } from '../target/target.js';
import type { PlannedPatch } from './plan.js';
import { movedSignalFrames, movedThreads } from './threads.js';

/** Writes the trampolines. Nobody goes there yet, so that the target may run meanwhile. */
export async function writeTrampolines(target: Target, patches: readonly PlannedPatch[]): Promise<void> {
  await target.writeMany(patches.map((patch) => ({ address: patch.trampoline, bytes: patch.code })));
}

/**
 * Makes the patches in a stopped target: all of them, or none and an error. Threads are moved first: one that stands in a
 * copy does the right thing whether the patch is there or not, one that stands in patched bytes does not.
 */
export async function install(target: Target, patches: readonly PlannedPatch[]): Promise<void> {
  const found = await target.readMany(
    patches.map(({ site, displaced }) => ({ address: site, length: displaced.length })),
  );
  patches.forEach((patch, index) => {
    if (!equal(found[index], patch.displaced)) throw changed(patch.site);
  });
  const threads = await target.registers();
  const moves = new Map(patches.flatMap((patch) => (patch.displaced.length > 1 ? [...patch.moves] : [])));
  const frames = await movedSignalFrames(target, threads, moves);
  const moved = movedThreads(threads, moves);
  if (moved.size > 0) await target.setRegisters(moved);
  await target.writeMany([
    ...frames,
    ...patches.map(({ site, replacement }) => ({ address: site, bytes: replacement })),
  ]);
}

/** Bytes of ours at an address, and what was there before. */
export interface Placed {
  readonly site: Address;
  readonly original: Uint8Array;
  readonly replacement: Uint8Array;
}

/**
 * Puts the original bytes back in a stopped target. A thread inside a trampoline goes on there and comes out behind the
 * site. Returns the patches whose bytes are neither ours nor the original ones: somebody changed them after us.
 */
export async function uninstall<T extends Placed>(target: Target, patches: readonly T[]): Promise<T[]> {
  const found = await target.readMany(
    patches.map(({ site, replacement }) => ({ address: site, length: replacement.length })),
  );
  const ours = patches.filter((patch, index) => equal(found[index], patch.replacement));
  await target.writeMany(ours.map(({ site, original }) => ({ address: site, bytes: original })));
  return patches.filter(
    (patch, index) => !equal(found[index], patch.replacement) && !equal(found[index], patch.original),
  );
}

function equal(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a !== undefined && a.length === b.length && a.every((byte, index) => byte === b[index]);
}

function changed(site: Address): FastprobeError {
  return new FastprobeError(
    'FASTPROBE_CODE_CHANGED',
    `the code at ${formatAddress(site)} is not what was planned for`,
    {
      hint: 'somebody else changes this code (a debugger, a JIT compiler, another fastprobe); try again without them',
    },
  );
}
