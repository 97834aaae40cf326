// What the addon carries for targets: the runtime's code, and the clock by which trampolines stamp hits.

import { addon, type RuntimeBlob } from './addon.js';

export type { RuntimeBlob } from './addon.js';

/** The code of native/runtime, ready to be copied into a target. */
export function runtimeBlob(): RuntimeBlob {
  return addon().runtimeBlob();
}

/** The time stamp counter and, at the same moment, the nanoseconds since 1970. */
export function readClocks(): { tsc: bigint; nanoseconds: bigint } {
  const [tsc = 0n, nanoseconds = 0n] = addon().clocks();
  return { tsc, nanoseconds };
}
