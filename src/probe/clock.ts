// Turning time stamp counters into times.

import { readClocks } from '../target/runtime.js';

const minimumBaseline = 1_000_000n;

/**
 * Knows the counter's frequency better the longer it exists: it compares the counter with the system's clock, and a first
 * reading with the latest.
 */
export class Clock {
  readonly #first = readClocks();
  #latest = this.#first;

  /** Compares again; call it now and then. */
  update(): void {
    const now = readClocks();
    if (now.nanoseconds - this.#first.nanoseconds > minimumBaseline) this.#latest = now;
  }

  /** Nanoseconds since 1970. */
  nanoseconds(tsc: bigint): bigint {
    if (this.#latest === this.#first) this.update();
    const ticks = this.#latest.tsc - this.#first.tsc;
    if (ticks <= 0n) return this.#first.nanoseconds;
    const elapsed = this.#latest.nanoseconds - this.#first.nanoseconds;
    return this.#latest.nanoseconds + ((tsc - this.#latest.tsc) * elapsed) / ticks;
  }
}
