// The half of the emitter that computes: moves, loads and stores, arithmetic.

import { invariant } from '../../errors.js';
import type { Register, Width } from '../registers.js';
import { Encoder } from './encoder.js';
import { type Condition, conditionCode, type Memory } from './operands.js';

/** Two-operand arithmetic in the order of its code in machine code. */
export const aluOperations = ['add', 'or', 'adc', 'sbb', 'and', 'sub', 'xor', 'cmp'] as const;
export type AluOperation = (typeof aluOperations)[number];

const shiftDigits = { rol: 0, ror: 1, shl: 4, shr: 5, sar: 7 } as const;
export type Shift = keyof typeof shiftDigits;

/** Moves and arithmetic. Not used by itself: `Emitter` adds control flow and the rest. */
export class Computation extends Encoder {
  // --- moves

  mov(to: Register, from: Register, width: Width = 64): void {
    const byte = width === 8;
    this.modrm({ opcode: [byte ? 0x88 : 0x89], width, reg: from, rm: to, byteReg: byte, byteRm: byte });
  }

  /** The shortest encoding that leaves all 64 bits of `to` as `value` (taken modulo 2^64) and no flag changed. */
  movImmediate(to: Register, value: bigint | number): void {
    const unsigned = BigInt.asUintN(64, BigInt(value));
    const signed = BigInt.asIntN(64, unsigned);
    if (unsigned <= 0xffff_ffffn) {
      if (to >= 8) this.byte(0x41);
      this.byte(0xb8 | (to & 7));
      this.integer(unsigned, 4);
    } else if (signed === BigInt.asIntN(32, signed)) {
      this.modrm({ opcode: [0xc7], width: 64, reg: 0, rm: to });
      this.integer(signed, 4);
    } else {
      this.raw(0x48 | (to >> 3), 0xb8 | (to & 7));
      this.integer(unsigned, 8);
    }
  }

  /** Sets `to` to zero in two or three bytes. Changes the flags. */
  zero(to: Register): void {
    this.alu('xor', to, to, 32);
  }

  /** Loads and zero-extends to 64 bits, whatever the width. */
  load(to: Register, from: Memory, width: Width = 64): void {
    if (width === 8) this.modrm({ opcode: [0x0f, 0xb6], width: 32, reg: to, rm: from });
    else if (width === 16) this.modrm({ opcode: [0x0f, 0xb7], width: 32, reg: to, rm: from });
    else this.modrm({ opcode: [0x8b], width, reg: to, rm: from });
  }

  /** Loads and sign-extends to 64 bits. */
  loadSigned(to: Register, from: Memory, width: Width): void {
    if (width === 64) this.load(to, from, 64);
    else this.modrm({ opcode: signExtension[width], width: 64, reg: to, rm: from });
  }

  /** Loads 8 or 16 bits into the low part of `to` and keeps the rest. */
  loadPart(to: Register, from: Memory, width: 8 | 16): void {
    const byte = width === 8;
    this.modrm({ opcode: [byte ? 0x8a : 0x8b], width, reg: to, rm: from, byteReg: byte });
  }

  store(to: Memory, from: Register, width: Width = 64): void {
    const byte = width === 8;
    this.modrm({ opcode: [byte ? 0x88 : 0x89], width, reg: from, rm: to, byteReg: byte });
  }

  /** Stores a constant; at 64 bits it is sign-extended from 32. */
  storeImmediate(to: Memory, value: number | bigint, width: Width = 64): void {
    const size = immediateSize(width);
    checkImmediate(value, width);
    this.modrm({ opcode: [width === 8 ? 0xc6 : 0xc7], width, reg: 0, rm: to, immediate: size });
    this.integer(value, size);
  }

  lea(to: Register, from: Memory): void {
    this.modrm({ opcode: [0x8d], width: 64, reg: to, rm: from });
  }

  /** movzx: `to` becomes the low `from` bits of `source`, zero-extended to 64. */
  zeroExtend(to: Register, source: Register, from: 8 | 16 | 32): void {
    if (from === 32) this.mov(to, source, 32);
    else this.modrm({ opcode: [0x0f, from === 8 ? 0xb6 : 0xb7], width: 32, reg: to, rm: source, byteRm: from === 8 });
  }

  /** movsx: `to` becomes the low `from` bits of `source`, sign-extended to 64. */
  signExtend(to: Register, source: Register, from: 8 | 16 | 32): void {
    this.modrm({ opcode: signExtension[from], width: 64, reg: to, rm: source, byteRm: from === 8 });
  }

  cmov(condition: Condition, to: Register, from: Register, width: 16 | 32 | 64 = 64): void {
    this.modrm({ opcode: [0x0f, 0x40 | conditionCode(condition)], width, reg: to, rm: from });
  }

  /** Sets the low byte of `to` to 0 or 1 and keeps the rest. */
  set(condition: Condition, to: Register): void {
    this.modrm({ opcode: [0x0f, 0x90 | conditionCode(condition)], width: 8, reg: 0, rm: to, byteRm: true });
  }

  xchg(a: Register, b: Register, width: Width = 64): void {
    const byte = width === 8;
    this.modrm({ opcode: [byte ? 0x86 : 0x87], width, reg: b, rm: a, byteReg: byte, byteRm: byte });
  }

  // --- arithmetic

  alu(operation: AluOperation, to: Register, from: Register, width: Width = 64): void {
    const byte = width === 8;
    const opcode = [aluBase(operation) | (byte ? 0 : 1)];
    this.modrm({ opcode, width, reg: from, rm: to, byteReg: byte, byteRm: byte });
  }

  /** Register with constant; the constant is sign-extended from 32 bits at 64. */
  aluImmediate(operation: AluOperation, to: Register, value: number | bigint, width: Width = 64): void {
    this.#aluImmediate(operation, to, value, width);
  }

  /** Register with memory, result in the register: `add rax, [rbx]`. */
  aluLoad(operation: AluOperation, to: Register, from: Memory, width: Width = 64): void {
    const byte = width === 8;
    this.modrm({ opcode: [aluBase(operation) | (byte ? 2 : 3)], width, reg: to, rm: from, byteReg: byte });
  }

  /** Memory with register, result in memory: `add [rbx], rax`. */
  aluStore(operation: AluOperation, to: Memory, from: Register, width: Width = 64): void {
    const byte = width === 8;
    this.modrm({ opcode: [aluBase(operation) | (byte ? 0 : 1)], width, reg: from, rm: to, byteReg: byte });
  }

  /** Memory with constant: `cmp dword ptr [rsp + 8], 5`. */
  aluMemoryImmediate(operation: AluOperation, to: Memory, value: number | bigint, width: Width = 64): void {
    this.#aluImmediate(operation, to, value, width);
  }

  #aluImmediate(operation: AluOperation, rm: Register | Memory, value: number | bigint, width: Width): void {
    checkImmediate(value, width);
    const reg = aluBase(operation) >> 3;
    const signed = BigInt.asIntN(width, BigInt(value));
    const size = width === 8 || signed === BigInt.asIntN(8, signed) ? 1 : immediateSize(width);
    const opcode = [width === 8 ? 0x80 : size === 1 ? 0x83 : 0x81];
    this.modrm({ opcode, width, reg, rm, byteRm: width === 8, immediate: size });
    this.integer(value, size);
  }

  test(a: Register, b: Register, width: Width = 64): void {
    const byte = width === 8;
    this.modrm({ opcode: [byte ? 0x84 : 0x85], width, reg: b, rm: a, byteReg: byte, byteRm: byte });
  }

  testImmediate(a: Register | Memory, value: number | bigint, width: Width = 64): void {
    checkImmediate(value, width);
    const immediate = immediateSize(width);
    this.modrm({ opcode: [width === 8 ? 0xf6 : 0xf7], width, reg: 0, rm: a, byteRm: width === 8, immediate });
    this.integer(value, immediate);
  }

  imul(to: Register, from: Register | Memory, width: 16 | 32 | 64 = 64): void {
    this.modrm({ opcode: [0x0f, 0xaf], width, reg: to, rm: from });
  }

  /** `to = from * value`. */
  imulImmediate(to: Register, from: Register | Memory, value: number, width: 16 | 32 | 64 = 64): void {
    checkImmediate(value, width);
    const signed = Number(BigInt.asIntN(width, BigInt(value)));
    const size = signed === (signed << 24) >> 24 ? 1 : immediateSize(width);
    this.modrm({ opcode: [size === 1 ? 0x6b : 0x69], width, reg: to, rm: from, immediate: size });
    this.integer(value, size);
  }

  /** Unsigned rdx:rax = rax * source (ax = al * source at 8 bits). */
  mul(source: Register, width: Width = 64): void {
    this.#group3(4, source, width);
  }

  /** Unsigned rdx:rax by source: quotient to rax, remainder to rdx. */
  div(source: Register, width: Width = 64): void {
    this.#group3(6, source, width);
  }

  /** Signed rdx:rax by source: quotient to rax, remainder to rdx. */
  idiv(source: Register, width: Width = 64): void {
    this.#group3(7, source, width);
  }

  neg(to: Register | Memory, width: Width = 64): void {
    this.#group3(3, to, width);
  }

  not(to: Register | Memory, width: Width = 64): void {
    this.#group3(2, to, width);
  }

  #group3(reg: number, rm: Register | Memory, width: Width): void {
    this.modrm({ opcode: [width === 8 ? 0xf6 : 0xf7], width, reg, rm, byteRm: width === 8 });
  }

  inc(to: Register | Memory, width: Width = 64): void {
    this.modrm({ opcode: [width === 8 ? 0xfe : 0xff], width, reg: 0, rm: to, byteRm: width === 8 });
  }

  dec(to: Register | Memory, width: Width = 64): void {
    this.modrm({ opcode: [width === 8 ? 0xfe : 0xff], width, reg: 1, rm: to, byteRm: width === 8 });
  }

  /** Sign-extends rax into rdx:rax, as idiv wants it. */
  cqo(): void {
    this.raw(0x48, 0x99);
  }

  /** Sign-extends eax into edx:eax. */
  cdq(): void {
    this.raw(0x99);
  }

  shift(operation: Shift, to: Register, count: number, width: Width = 64): void {
    invariant(count >= 0 && count < width, `a shift by ${count} of ${width} bits`);
    const byte = width === 8;
    const reg = shiftDigits[operation];
    const opcode = count === 1 ? [byte ? 0xd0 : 0xd1] : [byte ? 0xc0 : 0xc1];
    this.modrm({ opcode, width, reg, rm: to, byteRm: byte });
    if (count !== 1) this.byte(count);
  }

  shiftByCl(operation: Shift, to: Register, width: Width = 64): void {
    const byte = width === 8;
    this.modrm({ opcode: [byte ? 0xd2 : 0xd3], width, reg: shiftDigits[operation], rm: to, byteRm: byte });
  }
}

const signExtension = { 8: [0x0f, 0xbe], 16: [0x0f, 0xbf], 32: [0x63] } as const;

function aluBase(operation: AluOperation): number {
  return aluOperations.indexOf(operation) << 3;
}

function immediateSize(width: Width): 1 | 2 | 4 {
  return width === 8 ? 1 : width === 16 ? 2 : 4;
}

/** A constant must fit its width, signed or unsigned; at 64 bits only what sign-extends from 32 exists. */
export function checkImmediate(value: number | bigint, width: Width): void {
  const wide = BigInt(value);
  const fits =
    width === 64 ? wide === BigInt.asIntN(32, wide) : wide >= -(1n << BigInt(width - 1)) && wide < 1n << BigInt(width);
  invariant(fits, `constant ${value} does not fit ${width} bits`);
}
