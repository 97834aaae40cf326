// What the rest of fastprobe knows about one machine instruction, and how its opcode moves control.

import type { Address } from '../address.js';

/**
 * How control leaves an instruction.
 *
 * `loop` stands for loop, loope, loopne, jcxz, jecxz and jrcxz: conditional like `conditional-jump`, but they exist with an
 * 8-bit offset only. `return` includes far returns and iret. `trap` is what ends in a signal: int3, int1, int n, ud0–ud2,
 * hlt and the privileged returns. `far` is a far call or jump through memory.
 */
export type Flow =
  | 'next'
  | 'jump'
  | 'conditional-jump'
  | 'loop'
  | 'call'
  | 'return'
  | 'indirect-jump'
  | 'indirect-call'
  | 'syscall'
  | 'trap'
  | 'xbegin'
  | 'far';

/** A memory operand addressed relative to the instruction pointer. */
export interface RipOperand {
  /** Where the 32-bit displacement starts within the instruction. */
  readonly offset: number;
  /** The address the operand names, as seen from the instruction's original place. */
  readonly target: Address;
}

/** One decoded instruction. It owns its facts; nothing in it changes or has to be freed. */
export interface Instruction {
  readonly address: Address;
  readonly length: number;
  readonly bytes: Uint8Array;
  /** With its prefix where it has one: `mov`, `lock add`, `rep movsb`. `(bad)` when nobody could decode it. */
  readonly mnemonic: string;
  /** Operands in Intel syntax, as Capstone writes them. */
  readonly operands: string;
  readonly flow: Flow;
  /** Where a direct jump, call, loop or xbegin goes. */
  readonly target: Address | undefined;
  readonly ripOperand: RipOperand | undefined;
  /**
   * Why this instruction must not be relied on (the decoders disagree, or one cannot decode it). A site that touches such an
   * instruction is refused with this text. Undefined for everything that both decoders understand alike.
   */
  readonly problem: string | undefined;
}

/** `lea rax, [rip + 0x10]`, for people. */
export function formatInstruction(instruction: Instruction): string {
  return instruction.operands === '' ? instruction.mnemonic : `${instruction.mnemonic} ${instruction.operands}`;
}

/** The address after the instruction. */
export function endOf(instruction: Instruction): Address {
  return BigInt.asUintN(64, instruction.address + BigInt(instruction.length)) as Address;
}

/** The prefixes of an instruction and where its opcode starts. Manual volume 2, section 2.1.1 and 2.2.1. */
export interface Prefixes {
  /** Offset of the first byte that is neither a legacy prefix nor REX: an opcode byte, 0x0f, or a VEX/EVEX/XOP escape. */
  readonly opcodeOffset: number;
  /** The REX byte if it is in effect (directly before the opcode), else 0. */
  readonly rex: number;
  readonly operandSize: boolean;
  readonly addressSize: boolean;
  readonly lock: boolean;
  /** 0xf2, 0xf3 or 0: the last one wins. */
  readonly repeat: number;
}

/** 1 for the byte values that are legacy prefixes in 64-bit mode. */
const legacyPrefixes = new Uint8Array(256);
for (const byte of [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3]) legacyPrefixes[byte] = 1;

export function prefixesOf(bytes: Uint8Array): Prefixes {
  let offset = 0;
  let rex = 0;
  let operandSize = false;
  let addressSize = false;
  let lock = false;
  let repeat = 0;
  for (; offset < bytes.length; offset++) {
    const byte = bytes[offset] as number;
    if (byte >> 4 === 4) {
      rex = byte;
      continue;
    }
    if (legacyPrefixes[byte] === 0) break;
    // A REX that is not directly before the opcode is ignored by the processor.
    rex = 0;
    if (byte === 0x66) operandSize = true;
    else if (byte === 0x67) addressSize = true;
    else if (byte === 0xf0) lock = true;
    else if (byte === 0xf2 || byte === 0xf3) repeat = byte;
  }
  return { opcodeOffset: offset, rex, operandSize, addressSize, lock, repeat };
}

/** Where the opcode starts; the part of {@link prefixesOf} that decoding needs, without an object. */
export function opcodeOffsetOf(bytes: Uint8Array, start: number, end: number): number {
  let offset = start;
  while (offset < end) {
    const byte = bytes[offset] as number;
    if (byte >> 4 !== 4 && legacyPrefixes[byte] === 0) break;
    offset++;
  }
  return offset;
}

const flowOfOneByte: Flow[] = new Array<Flow>(256).fill('next');
const flowOfTwoByte: Flow[] = new Array<Flow>(256).fill('next');
for (let low = 0; low < 16; low++) {
  flowOfOneByte[0x70 + low] = 'conditional-jump';
  flowOfTwoByte[0x80 + low] = 'conditional-jump';
}
for (const opcode of [0xe0, 0xe1, 0xe2, 0xe3]) flowOfOneByte[opcode] = 'loop';
for (const opcode of [0xe9, 0xeb]) flowOfOneByte[opcode] = 'jump';
flowOfOneByte[0xe8] = 'call';
for (const opcode of [0xc2, 0xc3, 0xca, 0xcb, 0xcf]) flowOfOneByte[opcode] = 'return';
for (const opcode of [0xcc, 0xcd, 0xf1, 0xf4]) flowOfOneByte[opcode] = 'trap';
for (const opcode of [0x05, 0x34]) flowOfTwoByte[opcode] = 'syscall';
for (const opcode of [0x07, 0x0b, 0x35, 0xaa, 0xb9, 0xff]) flowOfTwoByte[opcode] = 'trap';

/**
 * How control leaves the instruction whose opcode starts at `offset`. It reads the opcode itself, because Capstone's groups
 * leave out loop and its register lists leave out syscall. VEX, EVEX and XOP have no control flow in 64-bit mode.
 */
export function flowAt(bytes: Uint8Array, offset: number): Flow {
  const opcode = bytes[offset];
  if (opcode === undefined) return 'next';
  const next = bytes[offset + 1] ?? 0;
  if (opcode === 0x0f) return flowOfTwoByte[next] as Flow;
  if (opcode === 0xff) {
    const extension = (next >> 3) & 7;
    if (extension === 2) return 'indirect-call';
    if (extension === 4) return 'indirect-jump';
    return extension === 3 || extension === 5 ? 'far' : 'next';
  }
  if (opcode === 0xc7) return next === 0xf8 ? 'xbegin' : 'next';
  if (opcode === 0xcd && next === 0x80) return 'syscall';
  return flowOfOneByte[opcode] as Flow;
}

/** True when the instruction after this one may run next. False for what never comes back by itself. */
export function fallsThrough(instruction: Instruction): boolean {
  const { flow } = instruction;
  return flow !== 'jump' && flow !== 'indirect-jump' && flow !== 'return';
}
