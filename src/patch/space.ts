// Finding room in the target's address space, within reach of the code that is to jump there.

import { type Address, address, formatAddress } from '../address.js';
import { FastprobeError } from '../errors.js';
import type { Mapping } from '../target/maps.js';

/** What is in the way. */
type Occupied = Pick<Mapping, 'start' | 'end' | 'path'>;

const megabyte = 1n << 20n;
/** How far a rel32 reaches, with room for the instructions around it. */
const reach = (1n << 31n) - megabyte;
/** The kernel does not map below this. */
const lowest = 0x10000n;
const highest = 0x7fff_ffff_f000n;
const granularity = 0x10000n;

export interface Span {
  readonly low: Address;
  /** The first address behind it. */
  readonly high: Address;
}

/** True when every byte of `a` reaches every byte of `b` with a rel32, and the other way round. */
export function isWithinReach(a: Span, b: Span): boolean {
  return b.high - a.low < reach && a.high - b.low < reach;
}

/** What must stay free beside a mapping, because it grows. */
function roomAbove(mapping: Occupied | undefined): bigint {
  return mapping?.path === '[heap]' ? 512n * megabyte : 0n;
}

function roomBelow(mapping: Occupied | undefined): bigint {
  return mapping?.path === '[stack]' ? 1024n * megabyte : 0n;
}

/** The free place of `size` bytes that is nearest to `code` and within reach of all of it. `maps` is in the order of addresses. */
export function findRoom(maps: readonly Occupied[], code: Span, size: number): Address {
  const from = max(lowest, code.high - reach);
  const to = min(highest, code.low + reach);
  let best: { at: bigint; distance: bigint } | undefined;
  for (let index = 0; index <= maps.length; index++) {
    const below = maps[index - 1];
    const above = maps[index];
    const start = roundUp(max(from, (below?.end ?? 0n) + granularity + roomAbove(below)));
    const end = min(to, (above?.start ?? highest) - granularity - roomBelow(above));
    const last = end - BigInt(size) - ((end - BigInt(size)) % granularity);
    if (last < start) continue;
    // A gap is on one side of the code: its near end is the one to take.
    const at = last < code.low ? last : start;
    const distance = at < code.low ? code.low - at : at - code.high;
    if (best === undefined || distance < best.distance) best = { at, distance };
  }
  if (best !== undefined) return address(best.at);
  throw new FastprobeError(
    'FASTPROBE_NO_ROOM',
    `no ${size} bytes are free within 2 GiB of the code at ${formatAddress(code.low)}`,
    { hint: 'probe code in another module of the program, or a program that leaves more of its address space free' },
  );
}

function roundUp(value: bigint): bigint {
  return ((value + granularity - 1n) / granularity) * granularity;
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
