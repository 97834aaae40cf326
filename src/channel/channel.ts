// Our end of the channel, made for one session.

import { type Address, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import type { SharedRegion } from '../target/shared-region.js';
import { actionSize, actionSlots, counters, header, magic, ourSignals, patches, probes, ring } from './layout.js';
import { decodeActions, encodePatch, type PatchRecord, patchState } from './records.js';
import { Redirects } from './redirects.js';
import { Ring } from './ring.js';

/** The name of the memory file, by which a later fastprobe finds it in the target's map. */
export const channelName = 'fastprobe';

/** Whoever made a channel. */
export interface Owner {
  readonly pid: number;
  readonly startTime: bigint;
}

export interface ProbeCounters {
  readonly hits: bigint;
  readonly faults: bigint;
  readonly dropped: bigint;
}

/**
 * The shared memory of one session, as we see it. All writes are seen by the target at once.
 *
 * Owns our mapping of it. The target's mappings end with the session (or stay behind, for a later fastprobe to find).
 */
export class Channel {
  readonly ring: Ring;
  readonly redirects: Redirects;
  /** Where it is in the target for the first time; there is a further view beside every further arena. */
  readonly address: Address;
  readonly #view: DataView;
  readonly #bytes: Uint8Array;

  private constructor(region: SharedRegion) {
    this.address = region.address;
    this.#view = new DataView(region.buffer);
    this.#bytes = new Uint8Array(region.buffer);
    this.ring = new Ring(region.buffer);
    this.redirects = new Redirects(this.#view);
  }

  /** Takes charge of fresh memory that the target sees too. */
  static begin(region: SharedRegion, owner: Owner): Channel {
    const channel = new Channel(region);
    const view = channel.#view;
    view.setUint32(header.ownerPid, owner.pid, true);
    view.setBigUint64(header.ownerStart, owner.startTime, true);
    view.setBigUint64(header.created, BigInt(Date.now()), true);
    // Probes are numbered from 1, as people count.
    view.setUint32(header.probeCount, 1, true);
    view.setBigUint64(header.magic, magic, true);
    return channel;
  }

  set runtime(at: Address) {
    this.#view.setBigUint64(header.runtime, at, true);
  }

  set restorer(at: Address) {
    this.#view.setBigUint64(header.restorer, at, true);
  }

  /** Takes the next probe number and notes what it is for. */
  addProbe(description: object, limit: bigint): number {
    const id = this.#view.getUint32(header.probeCount, true);
    if (id >= probes.slots) throw full('probes', probes.slots);
    const at = probes.offset + id * probes.size;
    const room = probes.size - probes.text;
    let text = Buffer.from(JSON.stringify(description));
    // What is too long to note is not worth refusing a probe for.
    if (text.length > room) text = Buffer.from(JSON.stringify({ at: '(too long to note)' }));
    this.#bytes.set(text, at + probes.text);
    this.#view.setUint32(at + probes.length, text.length, true);
    this.#view.setUint32(at + probes.state, 1, true);
    this.#view.setBigUint64(this.#counter(id, counters.limit), limit, true);
    this.#view.setUint32(header.probeCount, id + 1, true);
    return id;
  }

  removeProbe(id: number): void {
    this.#view.setUint32(probes.offset + id * probes.size + probes.state, 2, true);
  }

  /** Notes a patch, before it is made; returns its number. */
  addPatch(patch: PatchRecord): number {
    const index = this.#view.getUint32(header.patchCount, true);
    if (index >= patches.slots) throw full('patches', patches.slots);
    this.#bytes.set(encodePatch(patch), patches.offset + index * patches.size);
    this.#view.setUint32(header.patchCount, index + 1, true);
    return index;
  }

  /** Notes that a patch is gone, after it was undone. */
  removePatch(index: number): void {
    this.#view.setUint8(patches.offset + index * patches.size + patches.state, patchState.removed);
  }

  counters(id: number): ProbeCounters {
    const read = (field: number) => this.#view.getBigUint64(this.#counter(id, field), true);
    return { hits: read(counters.hits), faults: read(counters.faults), dropped: read(counters.dropped) };
  }

  /** The target's own actions for our signals, as they are now; none for a signal whose handler is not ours. */
  get actions(): ReadonlyMap<number, Uint8Array> {
    return decodeActions(this.#bytes);
  }

  /** Notes, for each of our signals, that the target's action will be where `actionAddress` says, and is not there yet. */
  expectActions(): void {
    Object.values(ourSignals).forEach((_, index) => {
      this.#bytes.fill(
        0xff,
        header.actions + index * actionSlots * actionSize,
        header.actions + index * actionSlots * actionSize + actionSize,
      );
      this.#view.setUint32(header.currentAction + index * 4, 0, true);
      this.#view.setUint32(header.nextAction + index * 4, 1, true);
    });
  }

  /** Where the kernel is to put the action that the target has for our signal with this index. */
  actionAddress(index: number): Address {
    return offsetBy(this.address, header.actions + index * actionSlots * actionSize);
  }

  /** Memory for arguments of system calls: where the target sees it, … */
  get scratch(): Address {
    return offsetBy(this.address, header.scratch);
  }

  /** … and where we do. */
  get scratchBytes(): Uint8Array {
    return this.#bytes.subarray(header.scratch, header.actions);
  }

  #counter(id: number, field: number): number {
    return counters.offset + id * counters.size + field;
  }
}

/** Offsets, for trampolines: add the address of a view. */
export function counterOffset(probe: number, field: 'hits' | 'faults' | 'dropped' | 'limit'): number {
  return counters.offset + probe * counters.size + counters[field];
}

export const ringOffset = ring.offset;

function full(what: string, limit: number): FastprobeError {
  return new FastprobeError('FASTPROBE_TOO_MANY', `a session can have ${limit} ${what} and no more`, {
    hint: 'close the session and open a new one; removed ones count until then',
  });
}
