// Operations: what is done to a stopped target in one go, planned before and without coming back to us in between.

import type { Address } from '../address.js';
import type { NativeOperation } from './addon.js';
import { type RemoteCall, wordsOfCalls } from './remote-calls.js';

/** Bytes to be changed, if those that are there are the expected ones. */
export interface Change {
  readonly address: Address;
  /** What must be there; may be longer than what is written. */
  readonly expected: Uint8Array;
  readonly bytes: Uint8Array;
}

/** Everything is optional, and done in this order. */
export interface OperationPlan {
  /** System calls to run in the target; if one fails, nothing else is done and it is an error. */
  readonly calls?: readonly RemoteCall[];
  /** What the calls' arguments `'data'` point at. */
  readonly data?: Uint8Array;
  /** The call whose result is a file descriptor that we want to have as well; it is closed in the target. */
  readonly descriptorOf?: number;
  /** For a thread that stands at a key, also in a signal frame on its stack: where it goes on. */
  readonly moves?: ReadonlyMap<Address, Address>;
  readonly changes?: readonly Change[];
  /** When bytes are not as expected: change nothing and move nobody (the default), or only leave that one out. */
  readonly onMismatch?: 'none' | 'skip';
}

export interface OperationResult {
  /** What the system calls returned. */
  readonly results: readonly bigint[];
  /** Ours, of the file that `descriptorOf` asked for. */
  readonly descriptor: number | undefined;
  /** Indices of changes whose bytes were not as expected. */
  readonly mismatches: readonly number[];
  /** The thread pointer of every thread. */
  readonly threadPointers: ReadonlyMap<number, Address>;
  /** For how long the threads were held; 0 if they still are. */
  readonly heldMicroseconds: number;
}

/** What becomes of the target afterwards. */
export type OperationEnd = 'run' | 'detach' | 'stay-stopped';

const ends: Readonly<Record<OperationEnd, number>> = { run: 0, detach: 1, 'stay-stopped': 2 };

/** A plan as the addon takes it. */
export function packOperation(plan: OperationPlan, end: OperationEnd): NativeOperation {
  const changes = plan.changes ?? [];
  return {
    calls: wordsOfCalls(plan.calls ?? []),
    data: plan.data ?? new Uint8Array(),
    descriptorOf: plan.descriptorOf ?? -1,
    moves: BigUint64Array.from([...(plan.moves ?? [])].flat()),
    changes: BigUint64Array.from(
      changes.flatMap(({ address, expected, bytes }) => [address, BigInt(expected.length), BigInt(bytes.length)]),
    ),
    contents: Buffer.concat(changes.flatMap(({ expected, bytes }) => [expected, bytes])),
    allOrNone: plan.onMismatch !== 'skip',
    end: ends[end],
  };
}
