// What the channel keeps so that a later fastprobe can list and undo what an earlier one did.

import { type Address, address } from '../address.js';
import {
  actionSize,
  actionSlots,
  channelSize,
  counters,
  header,
  magic,
  ourSignals,
  patches,
  probes,
} from './layout.js';

export const patchState = { placed: 1, removed: 2 } as const;

const tacticNames = ['plain', 'relocate', 'trap'] as const;
export type TacticName = (typeof tacticNames)[number];

export interface PatchRecord {
  readonly site: Address;
  readonly trampoline: Address;
  readonly tactic: TacticName;
  readonly probe: number;
  readonly original: Uint8Array;
  /** As many bytes, which are there instead. */
  readonly replacement: Uint8Array;
}

export function encodePatch(patch: PatchRecord): Uint8Array {
  const bytes = new Uint8Array(patches.size);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(patches.site, patch.site, true);
  view.setBigUint64(patches.trampoline, patch.trampoline, true);
  view.setUint8(patches.state, patchState.placed);
  view.setUint8(patches.length, patch.original.length);
  view.setUint8(patches.tactic, tacticNames.indexOf(patch.tactic));
  view.setUint32(patches.probe, patch.probe, true);
  bytes.set(patch.original, patches.original);
  bytes.set(patch.replacement, patches.replacement);
  return bytes;
}

const notThereYet = (1n << 64n) - 1n;

/** The target's own actions for our signals, by signal; none for a signal whose handler is not ours (yet). */
export function decodeActions(channel: Uint8Array): Map<number, Uint8Array> {
  const view = new DataView(channel.buffer, channel.byteOffset, channel.length);
  const actions = Object.values(ourSignals).map((signal, index): [number, Uint8Array] => {
    const slot = view.getUint32(header.currentAction + index * 4, true) % actionSlots;
    const at = header.actions + (index * actionSlots + slot) * actionSize;
    return [signal, channel.slice(at, at + actionSize)];
  });
  return new Map(actions.filter(([, action]) => new DataView(action.buffer).getBigUint64(0, true) !== notThereYet));
}

/** A probe as its maker described it, with what it has counted. */
export interface ProbeRecord {
  readonly id: number;
  readonly removed: boolean;
  readonly description: Readonly<Record<string, unknown>>;
  readonly hits: bigint;
  readonly faults: bigint;
  readonly dropped: bigint;
}

/** Everything that a channel records. */
export interface Records {
  readonly owner: { readonly pid: number; readonly startTime: bigint };
  readonly created: Date;
  readonly runtime: Address;
  readonly probes: readonly ProbeRecord[];
  /** With their numbers in the channel; removed ones are left out. */
  readonly patches: readonly (PatchRecord & { readonly index: number })[];
}

/** A channel whose maker died before it wrote anything. */
export const noRecords: Records = {
  owner: { pid: 0, startTime: 0n },
  created: new Date(0),
  runtime: address(0),
  probes: [],
  patches: [],
};

/** Reads the records out of the bytes of a channel up to its ring; undefined when they are not those of a channel. */
export function decodeRecords(bytes: Uint8Array): Records | undefined {
  if (bytes.length < patches.offset + patches.size * patches.slots || bytes.length > channelSize) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (view.getBigUint64(header.magic, true) !== magic) return undefined;
  const count = (field: number, limit: number) => Math.min(view.getUint32(field, true), limit);
  return {
    owner: { pid: view.getUint32(header.ownerPid, true), startTime: view.getBigUint64(header.ownerStart, true) },
    created: new Date(Number(view.getBigUint64(header.created, true))),
    runtime: address(view.getBigUint64(header.runtime, true)),
    probes: times(count(header.probeCount, probes.slots), (id) => decodeProbe(view, id)).slice(1),
    patches: times(count(header.patchCount, patches.slots), (index) => decodePatch(view, index)).flat(),
  };
}

function decodeProbe(view: DataView, id: number): ProbeRecord {
  const at = probes.offset + id * probes.size;
  const counter = (field: number) => view.getBigUint64(counters.offset + id * counters.size + field, true);
  const length = Math.min(view.getUint32(at + probes.length, true), probes.size - probes.text);
  return {
    id,
    removed: view.getUint32(at + probes.state, true) !== 1,
    description: parse(Buffer.from(view.buffer, view.byteOffset + at + probes.text, length).toString()),
    hits: counter(counters.hits),
    faults: counter(counters.faults),
    dropped: counter(counters.dropped),
  };
}

/** The target could have written over it: then it says nothing. */
function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

function decodePatch(view: DataView, index: number): (PatchRecord & { index: number })[] {
  const at = patches.offset + index * patches.size;
  const length = view.getUint8(at + patches.length);
  const tactic = tacticNames[view.getUint8(at + patches.tactic)];
  const isPlaced = view.getUint8(at + patches.state) === patchState.placed;
  if (!isPlaced || length > patches.replacement - patches.original || tactic === undefined) return [];
  const bytes = (field: number) => new Uint8Array(view.buffer, view.byteOffset + at + field, length).slice();
  return [
    {
      index,
      site: address(view.getBigUint64(at + patches.site, true)),
      trampoline: address(view.getBigUint64(at + patches.trampoline, true)),
      tactic,
      probe: view.getUint32(at + patches.probe, true),
      original: bytes(patches.original),
      replacement: bytes(patches.replacement),
    },
  ];
}

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}
