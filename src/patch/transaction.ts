// Changing code: what is to be done while the target is stopped. Planned here as an operation, so that the stop is short and a
// death of fastprobe at any moment leaves code that works.

import { type Address, formatAddress } from '../address.js';
import { FastprobeError } from '../errors.js';
import type { OperationPlan } from '../target/operation.js';
import type { Target } from '../target/target.js';
import type { PlannedPatch } from './plan.js';

/** Writes the trampolines. Nobody goes there yet, so that the target may run meanwhile. */
export async function writeTrampolines(target: Target, patches: readonly PlannedPatch[]): Promise<void> {
  await target.writeMany(patches.map((patch) => ({ address: patch.trampoline, bytes: patch.code })));
}

/** Makes the patches: all of them, or none if some code is not what was planned for. */
export function installation(patches: readonly PlannedPatch[]): OperationPlan {
  return {
    moves: new Map(patches.flatMap((patch) => [...patch.moves])),
    changes: patches.map(({ site, displaced, replacement }) => ({
      address: site,
      expected: displaced,
      bytes: replacement,
    })),
  };
}

/** The error for an installation that was given up. */
export function codeChanged(site: Address): FastprobeError {
  return new FastprobeError(
    'FASTPROBE_CODE_CHANGED',
    `the code at ${formatAddress(site)} is not what was planned for`,
    {
      hint: 'somebody else changes this code (a debugger, a JIT compiler, another fastprobe); try again without them',
    },
  );
}

/** Bytes of ours at an address, and what was there before. */
export interface Placed {
  readonly site: Address;
  readonly original: Uint8Array;
  readonly replacement: Uint8Array;
}

/**
 * Puts the original bytes back, where ours are still there. A thread in a copy of displaced instructions is led back by
 * `returns`; one elsewhere in a trampoline goes on there and comes out behind the site.
 */
export function removal(patches: readonly Placed[], returns: NonNullable<OperationPlan['moves']>): OperationPlan {
  return {
    moves: returns,
    changes: patches.map(({ site, replacement, original }) => ({
      address: site,
      expected: replacement,
      bytes: original,
    })),
    onMismatch: 'skip',
  };
}

/** Of the patches that a removal skipped, those whose bytes are not the original ones: somebody changed them after us. */
export async function overwritten<T extends Placed>(
  target: Target,
  patches: readonly T[],
  skipped: readonly number[],
): Promise<T[]> {
  const suspects = skipped.flatMap((index) => patches[index] ?? []);
  const found = await target.readMany(
    suspects.map(({ site, original }) => ({ address: site, length: original.length })),
  );
  return suspects.filter(({ original }, index) => Buffer.compare(found[index] ?? Buffer.of(), original) !== 0);
}
