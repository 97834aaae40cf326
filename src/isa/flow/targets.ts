// Where single instructions send control, and the instructions that this leads to.

import { type Address, address } from '../../address.js';
import { invariant } from '../../errors.js';
import { decodeOne } from '../decode.js';
import { endOf, fallsThrough, type Instruction, prefixesOf } from '../instruction.js';

/**
 * All instructions of the linear sweep, and those that jumps reach at other places: glibc jumps past a lock prefix, and data in
 * code can put the sweep out of step.
 */
export function followJumps(
  bytes: Uint8Array,
  start: Address,
  byAddress: ReadonlyMap<Address, Instruction>,
  entries: readonly Address[],
): Set<Instruction> {
  const found = new Set(byAddress.values());
  const offStep = new Map<Address, Instruction>();
  const work = [...entries, ...[...found].flatMap(directTargets)];
  for (let at = work.pop(); at !== undefined; at = work.pop()) {
    const offset = Number(at - start);
    if (offset < 0 || offset >= bytes.length || byAddress.has(at) || offStep.has(at)) continue;
    const instruction = decodeOne(bytes.subarray(offset), at);
    invariant(instruction !== undefined, 'a byte inside the function decodes to something');
    offStep.set(at, instruction);
    found.add(instruction);
    work.push(...directTargets(instruction));
    if (fallsThrough(instruction)) work.push(endOf(instruction));
  }
  return found;
}

/** Where an instruction sends control by itself: its target, the return from a call, and code whose address it takes. */
export function directTargets(instruction: Instruction): Address[] {
  const targets = addressesTaken(instruction);
  if (instruction.target !== undefined) targets.push(instruction.target);
  if (instruction.flow === 'call' || instruction.flow === 'indirect-call') targets.push(endOf(instruction));
  return targets;
}

/**
 * Addresses that an instruction hands on, so that anyone may come there: a lea (computed goto, a callback in the middle of
 * assembly), an absolute immediate of code at a fixed place, and the target of a call.
 */
export function addressesTaken(instruction: Instruction): Address[] {
  if (instruction.flow === 'call' && instruction.target !== undefined) return [instruction.target];
  if (instruction.flow !== 'next') return [];
  if (instruction.ripOperand !== undefined) return [instruction.ripOperand.target];
  // mov r, imm32; mov r, imm64; mov r/m, imm32; push imm32. Only positive ones can be addresses.
  const { bytes, length } = instruction;
  if (length < 5 || (bytes[length - 1] as number) >= 0x80) return [];
  const { opcodeOffset } = prefixesOf(bytes);
  const opcode = bytes[opcodeOffset] as number;
  if (opcode >> 3 !== 0xb8 >> 3 && opcode !== 0xc7 && opcode !== 0x68) return [];
  const size = opcode >> 3 === 0xb8 >> 3 && length - opcodeOffset === 9 ? 8 : 4;
  if (length - opcodeOffset <= size) return [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  const at = length - size;
  return [address(size === 8 ? view.getBigUint64(at, true) : view.getUint32(at, true))];
}
