// Moving a few bytes and showing the copy as text, for the tests of relocation.

import { expect } from 'vitest';
import { type Address, address } from '../../src/address.js';
import { decode } from '../../src/isa/decode.js';
import { Emitter } from '../../src/isa/emit.js';
import { formatInstruction } from '../../src/isa/instruction.js';
import { type Moved, type RelocationOptions, relocateInto, type Unmovable } from '../../src/isa/relocate.js';
import { hex } from './objdump.js';

export const site = address(0x7f0000001000n);
/** A place that a rel32 reaches from the site, and from which it reaches what the site reaches nearby. */
export const near = address(0x7f0000100000n);
/** A place from which nothing around the site can be reached with 32 bits. */
export const far = address(0x7e0000000000n);

export interface Copy {
  /** Disassembly of the copy up to its jump back, one instruction per line; the literals are left out. */
  readonly text: readonly string[];
  readonly bytes: string;
  readonly result: Moved;
}

export function move(bytes: string, to: Address = near, options: RelocationOptions = {}, from: Address = site): Copy {
  const code = new Emitter(to);
  const result = relocateInto(code, decode(hex(bytes), from), options);
  if (result.kind === 'unmovable') throw new Error(result.message);
  const length = code.length;
  const all = code.finish();
  const text = decode(all.subarray(0, length), to).map((instruction) => {
    expect(instruction.problem).toBeUndefined();
    const literal = literalAt(all, to, instruction.ripOperand?.target);
    const target = instruction.ripOperand === undefined ? '' : ` -> 0x${instruction.ripOperand.target.toString(16)}`;
    return `${formatInstruction(instruction)}${literal === undefined ? target : ` = 0x${literal.toString(16)}`}`;
  });
  return { text, bytes: Buffer.from(all.subarray(0, length)).toString('hex'), result };
}

export function literalAt(all: Uint8Array, base: Address, at: Address | undefined): bigint | undefined {
  if (at === undefined || at < base || at + 8n > base + BigInt(all.length)) return undefined;
  return new DataView(all.buffer, all.byteOffset).getBigUint64(Number(at - base), true);
}

export function refused(bytes: string, to: Address = near, options: RelocationOptions = {}): Unmovable {
  const code = new Emitter(to);
  code.nop(3);
  const result = relocateInto(code, decode(hex(bytes), site), options);
  if (result.kind === 'moved') throw new Error('was moved');
  expect(code.finish(), 'a refusal leaves no bytes behind').toEqual(hex('0f1f00'));
  return result;
}
