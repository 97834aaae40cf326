// The reading end of the ring of hits.

import { header, ring } from './layout.js';

/** A hit as the trampoline left it. */
export interface RawHit {
  readonly probe: number;
  readonly tid: number;
  /** Time stamp counter. */
  readonly time: bigint;
  /** A bit for each value that could not be read. */
  readonly unreadable: number;
  /** The whole room for values; how many of them mean something the probe knows. */
  readonly values: BigUint64Array;
}

/** How long a slot may be reserved without its hit: a thread that left by longjmp never writes it. */
const patienceMs = 1000;

/** Takes hits out of the ring in the order in which their places were reserved. The one reader; writers are trampolines. */
export class Ring {
  readonly #words: BigUint64Array;
  readonly #halves: Uint32Array;
  readonly #head: BigUint64Array;
  #position = 0n;
  #waitingSince: number | undefined;
  #abandoned = 0;

  constructor(buffer: ArrayBuffer) {
    this.#words = new BigUint64Array(buffer, ring.offset, (ring.size * ring.slots) / 8);
    this.#halves = new Uint32Array(buffer, ring.offset, (ring.size * ring.slots) / 4);
    this.#head = new BigUint64Array(buffer, header.head, 1);
  }

  /** Hits whose place was reserved and that never came. */
  get abandoned(): number {
    return this.#abandoned;
  }

  /** Gives `take` every hit that is there, at most `limit` of them; returns how many. */
  drain(take: (hit: RawHit) => void, limit = ring.slots): number {
    let count = 0;
    for (; count < limit; count++) {
      const slot = Number(this.#position % BigInt(ring.slots));
      const word = (slot * ring.size) / 8;
      const free = (this.#position / BigInt(ring.slots)) * 2n;
      const turn = Atomics.load(this.#words, word);
      if (turn !== free + 1n) {
        if (turn !== free || !this.#isOverdue()) break;
        // The one who reserved it may still come: only one of us two changes the turn.
        if (Atomics.compareExchange(this.#words, word, free, free + 2n) !== free) continue;
        this.#abandoned += 1;
        this.#advance();
        continue;
      }
      take(this.#read(word));
      Atomics.store(this.#words, word, free + 2n);
      this.#advance();
    }
    return count;
  }

  #advance(): void {
    this.#position += 1n;
    this.#waitingSince = undefined;
  }

  /** True when the next slot has been reserved for long. */
  #isOverdue(): boolean {
    if (Atomics.load(this.#head, 0) <= this.#position) return false;
    const now = performance.now();
    this.#waitingSince ??= now;
    return now - this.#waitingSince > patienceMs;
  }

  #read(word: number): RawHit {
    const half = word * 2;
    const both = this.#halves[half + ring.probe / 4] ?? 0;
    const first = word + ring.values / 8;
    return {
      probe: both & 0xffff,
      unreadable: both >>> 16,
      tid: this.#halves[half + ring.tid / 4] ?? 0,
      time: this.#words[word + ring.time / 8] ?? 0n,
      values: this.#words.slice(first, first + ring.maximumValues),
    };
  }
}
