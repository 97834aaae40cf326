// An arena: memory of ours in the target for code, within reach of the code that jumps there, with the channel beside it.

import { type Address, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import { isWithinReach, type Span } from './space.js';

const alignment = 16n;

/**
 * Hands out room for trampolines. What was handed out is never handed out again: a thread could still be inside.
 *
 * The target may read and execute it, never write to it; we write through /proc/pid/mem.
 */
export class Arena implements Span {
  readonly low: Address;
  readonly high: Address;
  /** Where this arena's code sees the channel. */
  readonly channel: Address;
  #next: Address;

  constructor(low: Address, size: number, channel: Address) {
    this.low = low;
    this.high = offsetBy(low, size);
    this.channel = channel;
    this.#next = low;
  }

  /** Where the next code will be. */
  get next(): Address {
    return this.#next;
  }

  /** Takes the next `size` bytes. */
  take(size: number): Address {
    const at = this.#next;
    const end = offsetBy(at, size);
    if (end > this.high) {
      throw new FastprobeError('FASTPROBE_NO_ROOM', 'the memory for trampolines near this code is used up', {
        hint: 'close the session and open a new one',
      });
    }
    this.#next = offsetBy(end, (alignment - (end % alignment)) % alignment);
    return at;
  }

  reaches(code: Span): boolean {
    return isWithinReach(this, code);
  }
}
