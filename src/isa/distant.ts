// Jumps into a function from anywhere else in its module: a part that was split off jumps back, assembly jumps at will.

import type { Address } from '../address.js';

/** How far a rel8 reaches, with the longest instruction that has one. */
const near = 144;

/**
 * Every address that some direct jump or call in a module's code may go to, found without decoding: each byte is taken for
 * the opcode of a jump. So none is missed, however the code is to be read, and a few are found that are none.
 */
export class DistantTargets {
  readonly #bytes: Uint8Array;
  readonly #start: Address;
  /** Targets of rel32 jumps and calls, as offsets from the start. */
  #far: Set<number> | undefined;

  /** `bytes` is all code of the module, from `start` on. */
  constructor(bytes: Uint8Array, start: Address) {
    this.#bytes = bytes;
    this.#start = start;
  }

  /** True when a jump from outside of [low, high) may go to `at`. Jumps of 32 bits from inside count as well. */
  has(at: Address, low: Address, high: Address): boolean {
    const target = Number(at - this.#start);
    this.#far ??= farTargets(this.#bytes);
    if (this.#far.has(target)) return true;
    const inside = { from: Number(low - this.#start), to: Number(high - this.#start) };
    for (let place = Math.max(target - near, 0); place < Math.min(target + near, this.#bytes.length - 1); place++) {
      if (place >= inside.from && place < inside.to) continue;
      const opcode = this.#bytes[place] as number;
      const isShort = opcode === 0xeb || opcode >> 4 === 7 || (opcode >= 0xe0 && opcode <= 0xe3);
      if (isShort && place + 2 + (((this.#bytes[place + 1] as number) << 24) >> 24) === target) return true;
    }
    return false;
  }
}

function farTargets(bytes: Uint8Array): Set<number> {
  const targets = new Set<number>();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let place = 0; place + 5 <= bytes.length; place++) {
    const opcode = bytes[place] as number;
    let end = 0;
    if (opcode === 0xe8 || opcode === 0xe9) end = place + 5;
    else if (opcode === 0x0f && (bytes[place + 1] as number) >> 4 === 8) end = place + 6;
    else continue;
    if (end > bytes.length) continue;
    const target = end + view.getInt32(end - 4, true);
    if (target >= 0 && target < bytes.length) targets.add(target);
  }
  return targets;
}
