// Memory that the target and we both see.

import { type Address, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import { addon, type NativeSharedRegion } from './addon.js';
import { withHint } from './native-errors.js';

/**
 * A piece of memory mapped on both sides. What either writes, the other sees; use `Atomics` or a `DataView` on `buffer`.
 * It stays usable after the target is detached or has ended, and in the target until it is unmapped there.
 */
export class SharedRegion {
  /** Where the target sees it. */
  readonly address: Address;
  /** Where we see it. */
  readonly buffer: ArrayBuffer;
  readonly #native: NativeSharedRegion;

  /** `path` is the file behind it, reachable from here. */
  constructor(path: string, length: number, address: Address) {
    try {
      this.#native = new (addon().SharedRegion)(path, length);
    } catch (error) {
      throw withHint(error);
    }
    this.buffer = this.#native.buffer();
    this.address = address;
  }

  /** The target's address of the byte at `offset`. */
  addressOf(offset: number): Address {
    return offsetBy(this.address, offset);
  }

  /**
   * Waits, without blocking the event loop, until someone wakes the 32-bit word at `offset`. Returns at once when the word
   * is not `expected`. True when woken (which, as with every futex, may be for nothing: look at the word again), false after
   * `timeoutMs`.
   */
  async wait(
    offset: number,
    expected: number,
    options: { timeoutMs?: number; signal?: AbortSignal } = {},
  ): Promise<boolean> {
    this.#check(offset);
    options.signal?.throwIfAborted();
    // The waiting thread can be reached only through the futex, and only once it waits: so wake until it has heard.
    let waking: NodeJS.Timeout | undefined;
    const onAbort = () => {
      waking = setInterval(() => this.wake(offset), 1);
    };
    options.signal?.addEventListener('abort', onAbort);
    try {
      const woken = await this.#native.wait(offset, expected >>> 0, options.timeoutMs ?? -1);
      options.signal?.throwIfAborted();
      return woken;
    } finally {
      clearInterval(waking);
      options.signal?.removeEventListener('abort', onAbort);
    }
  }

  /** Wakes up to `count` threads, of either side, that wait on the word at `offset`. Returns how many. */
  wake(offset: number, count = 0x7fffffff): number {
    this.#check(offset);
    return this.#native.wake(offset, count);
  }

  #check(offset: number): void {
    if (Number.isInteger(offset) && offset >= 0 && offset % 4 === 0 && offset + 4 <= this.buffer.byteLength) return;
    throw new FastprobeError('FASTPROBE_BAD_ARGUMENT', `no 32-bit word of the region is at offset ${offset}`, {
      hint: `pass a multiple of 4 from 0 to ${this.buffer.byteLength - 4}`,
    });
  }
}
