// Moving an instruction with a RIP-relative operand: re-aimed in reach, rewritten to go through a register beyond it.

import { offsetBy } from '../../address.js';
import { accessOf } from '../access.js';
import { type Emitter, mem, reaches } from '../emit.js';
import { type Instruction, prefixesOf, type RipOperand } from '../instruction.js';
import { hasRegister, type Register, type RegisterSet, rsp } from '../registers.js';

/** How the operand was reached from the new place; undefined when there is no way. */
export type RipMove = 'direct' | 'register' | 'stack' | undefined;

/** The registers that can replace RIP by changing two bits fields only: the others need SIB or a displacement. */
const plainBases: readonly Register[] = [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 14, 15];

/** Red zone below the stack pointer that a push must skip; System V ABI, section 3.2.2. */
const redZone = 128;

/**
 * Emits `instruction` so that its operand still names the same address. `dead` are registers that may be overwritten.
 * `before` is called when the operand's register (if one is needed) is loaded and the instruction itself comes next.
 */
export function moveRipRelative(
  code: Emitter,
  instruction: Instruction,
  operand: RipOperand,
  dead: RegisterSet,
  before: () => void = () => {},
): RipMove {
  const { bytes } = instruction;
  const start = code.length;
  before();
  const end = offsetBy(code.here, instruction.length);
  if (reaches(end, operand.target)) {
    const moved = bytes.slice();
    const distance = Number(BigInt.asIntN(64, operand.target - end));
    new DataView(moved.buffer).setInt32(operand.offset, distance, true);
    code.rawBytes(moved);
    return 'direct';
  }
  code.rewind(start);
  const { reads, writes, changes } = accessOf(instruction);
  // A register that the instruction overwrites whole without reading it is as good as a dead one: `mov rax, [rip + x]`.
  const free = ((dead & ~changes) | writes) & ~reads & ~(1 << rsp);
  for (const register of plainBases) {
    if (!hasRegister(free, register)) continue;
    const rewritten = withBase(instruction, operand, register);
    if (rewritten === undefined) continue;
    code.movImmediate(register, operand.target);
    before();
    code.rawBytes(rewritten);
    return 'register';
  }
  // Borrow a register through the stack, unless the instruction goes elsewhere or sees the stack pointer itself.
  if (instruction.flow !== 'next' || hasRegister(reads | changes, rsp)) return undefined;
  for (const register of plainBases) {
    if (hasRegister(reads | changes, register)) continue;
    const rewritten = withBase(instruction, operand, register);
    if (rewritten === undefined) continue;
    code.lea(rsp, mem({ base: rsp, disp: -redZone }));
    code.push(register);
    code.movImmediate(register, operand.target);
    code.rawBytes(rewritten);
    code.pop(register);
    code.lea(rsp, mem({ base: rsp, disp: redZone }));
    return 'stack';
  }
  return undefined;
}

/** The instruction with `[rip + disp32]` replaced by `[base]`, or undefined when its prefix has no room for the register. */
function withBase({ bytes }: Instruction, { offset }: RipOperand, base: Register): Uint8Array | undefined {
  const moved = Uint8Array.from([...bytes.subarray(0, offset), ...bytes.subarray(offset + 4)]);
  const modrm = offset - 1;
  moved[modrm] = ((moved[modrm] as number) & 0x38) | (base & 7);
  const { opcodeOffset, rex } = prefixesOf(bytes);
  const first = bytes[opcodeOffset] as number;
  const extended = base >= 8;
  // In VEX and EVEX the bit that extends the base is stored inverted, bit 5 of the byte after the first.
  const isVex3 =
    first === 0xc4 || first === 0x62 || (first === 0x8f && ((bytes[opcodeOffset + 1] as number) & 0x1f) >= 8);
  if (isVex3) {
    const second = moved[opcodeOffset + 1] as number;
    moved[opcodeOffset + 1] = extended ? second & ~0x20 : second | 0x20;
    return moved;
  }
  // A RIP-relative operand ignores REX.B, so it may be set where nobody meant it.
  if (rex !== 0) moved[opcodeOffset - 1] = extended ? rex | 1 : rex & ~1;
  else if (extended) return undefined;
  return moved;
}
