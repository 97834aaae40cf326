// A probe: what the user holds of it, and the hits it has delivered.

import type { Address } from '../address.js';
import type { ProbeCounters } from '../channel/channel.js';
import type { RawHit } from '../channel/ring.js';
import type { TacticName } from '../patch/tactics.js';
import type { ProbeSpec } from './spec.js';
import type { CapturedValue } from './values.js';

/** A site of a probe, and how the jump was placed there. */
export interface ProbeSite {
  readonly address: Address;
  readonly function: string | undefined;
  readonly file: string | undefined;
  readonly line: number | undefined;
  readonly tactic: TacticName;
  /** Why the tactics before it could not be used. */
  readonly passedOver: readonly { readonly tactic: TacticName; readonly reason: string }[];
}

/** One execution of a probe whose condition held. */
export interface Hit {
  /** The number of the probe. */
  readonly probe: number;
  /** Nanoseconds since 1970. */
  readonly time: bigint;
  /** The thread's number. */
  readonly thread: number;
  readonly values: Readonly<Record<string, CapturedValue>>;
}

/** What a probe has seen so far. */
export interface ProbeSummary {
  readonly hits: bigint;
  /** Hits that were counted but not recorded, because they came faster than they were read. */
  readonly dropped: bigint;
  /** Times the condition or a value touched memory that is not there. */
  readonly faults: bigint;
  /** The parts of expressions that did, with how often. */
  readonly faultsBy: ReadonlyMap<string, bigint>;
}

/** What a probe asks of its session. */
export interface ProbeOwner {
  counters(id: number): ProbeCounters;
  faultsBy(id: number): ReadonlyMap<string, bigint>;
  toHit(probe: Probe, raw: RawHit): Hit;
  remove(probe: Probe): Promise<void>;
}

/** Hits that wait in our memory for a reader; more than this are counted as dropped. */
const queueLimit = 100_000;

/** Made by `session.probe()`. Counts in the target whether we look or not. */
export class Probe {
  readonly id: number;
  readonly spec: ProbeSpec;
  readonly sites: readonly ProbeSite[];
  /** Variables in scope that are not captured, and why. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[];
  /** Resolves when there will be no more hits: removed, as many as asked for, or the target is gone. */
  readonly ended: Promise<void>;
  readonly #owner: ProbeOwner;
  readonly #queue: Hit[] = [];
  #wake: (() => void) | undefined;
  #hasEnded = false;
  #end: () => void = () => {};
  #delivered = 0;
  #dropped = 0n;

  /** For the session only. */
  constructor(
    facts: { id: number; spec: ProbeSpec; sites: readonly ProbeSite[]; leftOut: Probe['leftOut'] },
    owner: ProbeOwner,
  ) {
    this.id = facts.id;
    this.spec = facts.spec;
    this.sites = facts.sites;
    this.leftOut = facts.leftOut;
    this.#owner = owner;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  /** The counts, up to this moment. */
  summary(): ProbeSummary {
    const { hits, faults, dropped } = this.#owner.counters(this.id);
    const limit = this.spec.maxHits === undefined ? hits : BigInt(this.spec.maxHits);
    return {
      hits: hits < limit ? hits : limit,
      faults,
      dropped: dropped + this.#dropped,
      faultsBy: this.#owner.faultsBy(this.id),
    };
  }

  /** The hits, from the first on that nobody has taken yet, until the probe ends. */
  async *hits(): AsyncGenerator<Hit, void, undefined> {
    for (;;) {
      const hit = this.#queue.shift();
      if (hit !== undefined) yield hit;
      else if (this.#hasEnded) return;
      else await this.#news();
    }
  }

  /** Takes the probe out of the target. */
  async remove(): Promise<void> {
    await this.#owner.remove(this);
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** For the session only: a hit has arrived. */
  deliver(raw: RawHit): void {
    this.#delivered += 1;
    if (this.#queue.length >= queueLimit) this.#dropped += 1n;
    else this.#queue.push(this.#owner.toHit(this, raw));
    this.#wake?.();
  }

  /** For the session only: true when as many hits as asked for have come, and all that were recorded have arrived. */
  get isComplete(): boolean {
    if (this.spec.maxHits === undefined || this.#hasEnded) return false;
    const { hits, dropped } = this.#owner.counters(this.id);
    const limit = BigInt(this.spec.maxHits);
    if (hits < limit) return false;
    return this.spec.capture === 'nothing' || BigInt(this.#delivered) + dropped >= limit;
  }

  /** For the session only: nothing more will come. */
  end(): void {
    this.#hasEnded = true;
    this.#end();
    this.#wake?.();
  }
}
