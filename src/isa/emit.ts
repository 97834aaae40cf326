// The emitter: x86-64 machine code for trampolines and compiled expressions, one method per instruction form.

import { type Address, offsetBy } from '../address.js';
import { Computation, checkImmediate } from './emit/computation.js';
import { reaches } from './emit/encoder.js';
import { type Condition, conditionCode, Label, type Memory, rip } from './emit/operands.js';
import type { Register, Width } from './registers.js';

export { type AluOperation, aluOperations, type Shift } from './emit/computation.js';
export { reaches } from './emit/encoder.js';
export {
  type BasedMemory,
  type Condition,
  conditionCode,
  conditions,
  formatMemory,
  Label,
  type Memory,
  mem,
  negated,
  type RipMemory,
  rip,
} from './emit/operands.js';

/** How a direct jump is encoded: `short` is rel8, `near` is rel32. */
export type JumpForm = 'short' | 'near';

/** The recommended nops of 1 to 9 bytes; manual volume 2, NOP. */
const nops: readonly (readonly number[])[] = [
  [0x90],
  [0x66, 0x90],
  [0x0f, 0x1f, 0x00],
  [0x0f, 0x1f, 0x40, 0],
  [0x0f, 0x1f, 0x44, 0, 0],
  [0x66, 0x0f, 0x1f, 0x44, 0, 0],
  [0x0f, 0x1f, 0x80, 0, 0, 0, 0],
  [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
  [0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
];

/**
 * Emits code that will run at `base`. The order of operands is Intel's, destination first; the width comes last and is 64
 * bits unless given. Narrow register writes behave as the processor does: 32 bits clear the upper half, 8 and 16 keep it.
 *
 * ```ts
 * const code = new Emitter(arena);
 * const skip = code.label('skip');
 * code.aluMemoryImmediate('cmp', mem({ base: rsp, disp: 8 }), 0, 32);
 * code.jumpIf('e', skip, 'short');
 * code.lockInc(rip(counter));
 * code.bind(skip);
 * const bytes = code.finish();
 * ```
 */
export class Emitter extends Computation {
  // --- control flow

  jump(target: Address | Label, form: JumpForm = 'near'): void {
    this.byte(form === 'short' ? 0xeb : 0xe9);
    this.relative(target, form === 'short' ? 1 : 4);
  }

  jumpIf(condition: Condition, target: Address | Label, form: JumpForm = 'near'): void {
    if (form === 'short') this.byte(0x70 | conditionCode(condition));
    else this.raw(0x0f, 0x80 | conditionCode(condition));
    this.relative(target, form === 'short' ? 1 : 4);
  }

  jumpThrough(target: Register | Memory): void {
    this.modrm({ opcode: [0xff], width: 64, reg: 4, rm: target, wideByDefault: true });
  }

  /** Jumps to an address or label wherever it is: near if in reach, else through a literal. Touches no register. */
  jumpAnywhere(target: Address | Label): void {
    if (target instanceof Label || reaches(offsetBy(this.here, 5), target)) this.jump(target);
    else this.jumpThrough(rip(this.literal(target)));
  }

  /** Jumps to any address without touching a register: `jmp [rip]` with the address behind it. 14 bytes. */
  jumpAbsolute(target: Address): void {
    this.raw(0xff, 0x25, 0, 0, 0, 0);
    this.quad(target);
  }

  /** Loop, loope, loopne and jrcxz (opcodes e0 to e3), which exist with an 8-bit offset only. */
  loop(opcode: 0xe0 | 0xe1 | 0xe2 | 0xe3, target: Label, counter: 'rcx' | 'ecx'): void {
    if (counter === 'ecx') this.byte(0x67);
    this.byte(opcode);
    this.relative(target, 1);
  }

  /** Starts a transaction; an abort goes to `target`. */
  xbegin(target: Address | Label): void {
    this.raw(0xc7, 0xf8);
    this.relative(target, 4);
  }

  call(target: Address | Label): void {
    this.byte(0xe8);
    this.relative(target, 4);
  }

  callThrough(target: Register | Memory): void {
    this.modrm({ opcode: [0xff], width: 64, reg: 2, rm: target, wideByDefault: true });
  }

  ret(): void {
    this.byte(0xc3);
  }

  // --- stack and flags

  push(source: Register): void {
    if (source >= 8) this.byte(0x41);
    this.byte(0x50 | (source & 7));
  }

  pop(to: Register): void {
    if (to >= 8) this.byte(0x41);
    this.byte(0x58 | (to & 7));
  }

  /** Pushes 8 bytes: the constant, sign-extended from 32 bits. */
  pushImmediate(value: number): void {
    checkImmediate(value, 32);
    if (value === (value << 24) >> 24) this.raw(0x6a, value & 0xff);
    else {
      this.byte(0x68);
      this.integer(value, 4);
    }
  }

  pushMemory(source: Memory): void {
    this.modrm({ opcode: [0xff], width: 64, reg: 6, rm: source, wideByDefault: true });
  }

  popMemory(to: Memory): void {
    this.modrm({ opcode: [0x8f], width: 64, reg: 0, rm: to, wideByDefault: true });
  }

  pushfq(): void {
    this.raw(0x9c);
  }

  popfq(): void {
    this.raw(0x9d);
  }

  /** SF, ZF, AF, PF and CF to ah. */
  lahf(): void {
    this.raw(0x9f);
  }

  sahf(): void {
    this.raw(0x9e);
  }

  /** Arithmetic flags to ax (ah: all but OF; al: OF as 0 or 1). No pushf, which is slow to restore. */
  saveFlagsToAx(): void {
    this.lahf();
    this.set('o', 0);
  }

  /** The reverse: `add al, 127` overflows exactly when al is 1, then sahf sets the other five. */
  restoreFlagsFromAx(): void {
    this.raw(0x04, 0x7f);
    this.sahf();
  }

  // --- atomics

  lockInc(to: Memory, width: Width = 64): void {
    this.modrm({ opcode: [width === 8 ? 0xfe : 0xff], width, prefix: 0xf0, reg: 0, rm: to });
  }

  lockAdd(to: Memory, from: Register, width: Width = 64): void {
    this.#locked([width === 8 ? 0x00 : 0x01], to, from, width);
  }

  lockAddImmediate(to: Memory, value: number, width: Width = 64): void {
    this.byte(0xf0);
    this.aluMemoryImmediate('add', to, value, width);
  }

  /** `from` becomes the old value. */
  lockXadd(to: Memory, from: Register, width: Width = 64): void {
    this.#locked([0x0f, width === 8 ? 0xc0 : 0xc1], to, from, width);
  }

  /** Stores `from` if memory equals rax and sets ZF; else rax becomes the value found. */
  lockCmpxchg(to: Memory, from: Register, width: Width = 64): void {
    this.#locked([0x0f, width === 8 ? 0xb0 : 0xb1], to, from, width);
  }

  /** Exchanges register and memory; the processor locks the bus by itself. */
  xchgMemory(to: Memory, from: Register, width: Width = 64): void {
    const byte = width === 8;
    this.modrm({ opcode: [byte ? 0x86 : 0x87], width, reg: from, rm: to, byteReg: byte });
  }

  #locked(opcode: readonly number[], to: Memory, from: Register, width: Width): void {
    this.modrm({ opcode, width, prefix: 0xf0, reg: from, rm: to, byteReg: width === 8 });
  }

  // --- the rest

  rdtsc(): void {
    this.raw(0x0f, 0x31);
  }

  /** As rdtsc, after all earlier instructions; ecx becomes TSC_AUX: on Linux the CPU in bits 0–11, the node above. */
  rdtscp(): void {
    this.raw(0x0f, 0x01, 0xf9);
  }

  /** TSC_AUX to a register (needs the RDPID feature): on Linux the CPU in bits 0–11, the node above. */
  rdpid(to: Register): void {
    this.modrm({ opcode: [0x0f, 0xc7], width: 32, prefix: 0xf3, reg: 7, rm: to });
  }

  /** The base of the fs segment, which is the thread pointer (needs FSGSBASE enabled by the kernel, Linux 5.9). */
  rdfsbase(to: Register): void {
    this.modrm({ opcode: [0x0f, 0xae], width: 64, prefix: 0xf3, reg: 0, rm: to });
  }

  syscall(): void {
    this.raw(0x0f, 0x05);
  }

  int3(): void {
    this.raw(0xcc);
  }

  ud2(): void {
    this.raw(0x0f, 0x0b);
  }

  mfence(): void {
    this.raw(0x0f, 0xae, 0xf0);
  }

  lfence(): void {
    this.raw(0x0f, 0xae, 0xe8);
  }

  pause(): void {
    this.raw(0xf3, 0x90);
  }

  cld(): void {
    this.raw(0xfc);
  }

  endbr64(): void {
    this.raw(0xf3, 0x0f, 0x1e, 0xfa);
  }

  /** No-ops of `size` bytes in all, as few instructions as possible. */
  nop(size = 1): void {
    for (let left = size; left > 0; ) {
      const bytes = nops[Math.min(left, nops.length) - 1] as readonly number[];
      this.raw(...bytes);
      left -= bytes.length;
    }
  }

  /** No-ops up to the next multiple of `boundary` bytes in the address space. */
  align(boundary: number): void {
    const past = Number(this.here % BigInt(boundary));
    if (past !== 0) this.nop(boundary - past);
  }
}
