// The redirect table: where a thread goes on that trapped at a site of ours or faulted in code of ours.

import { type Address, address } from '../address.js';
import { FastprobeError } from '../errors.js';
import { redirects } from './layout.js';

/** Fibonacci hashing, as native/runtime/runtime.c does it: the top 15 bits of the product. */
function hash(at: Address): number {
  return Number(BigInt.asUintN(64, at * 0x9e3779b97f4a7c15n) >> 49n);
}

/**
 * Entries are only added. A handler in the target may be looking one up at any moment, even while all threads are stopped;
 * so an entry becomes visible as a whole (its address is written last), and one that is no longer needed leads back to
 * the address itself, where by then the original code is.
 */
export class Redirects {
  readonly #view: DataView;
  #used = 0;

  constructor(view: DataView) {
    this.#view = view;
  }

  /** Sends threads from `from` to `to`; `counter` is the offset in the channel of a number to count up each time, or 0. */
  set(from: Address, to: Address, counter = 0): void {
    const at = this.#slotOf(from);
    this.#view.setBigUint64(at + redirects.target, to, true);
    this.#view.setBigUint64(at + redirects.counter, BigInt(counter), true);
    if (this.#addressAt(at) === from) return;
    this.#used += 1;
    this.#view.setBigUint64(at + redirects.count, 0n, true);
    this.#view.setBigUint64(at + redirects.address, from, true);
  }

  /** For a trap that is gone: whoever still has to come goes on where it trapped. */
  retire(from: Address): void {
    this.set(from, from);
  }

  /** How often a redirect was taken. */
  count(from: Address): bigint {
    const at = this.#slotOf(from);
    return this.#addressAt(at) === from ? this.#view.getBigUint64(at + redirects.count, true) : 0n;
  }

  #addressAt(at: number): Address {
    return address(this.#view.getBigUint64(at + redirects.address, true));
  }

  /** The entry of an address, or the free one that it would get. */
  #slotOf(from: Address): number {
    let slot = hash(from);
    for (let step = 0; step < redirects.slots; step++, slot = (slot + 1) % redirects.slots) {
      const at = redirects.offset + slot * redirects.size;
      const found = this.#addressAt(at);
      // Half empty at least: the handler's search must end soon.
      if (found === from || (found === 0n && this.#used < redirects.slots / 2)) return at;
    }
    throw new FastprobeError('FASTPROBE_TOO_MANY', 'the table of traps and faults is full', {
      hint: 'probe fewer sites at once, or close the session and open a new one',
    });
  }
}
