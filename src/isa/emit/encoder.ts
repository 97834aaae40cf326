// The growing bytes of emitted code: labels, fix-ups, prefixes, ModRM and SIB.

import { type Address, formatAddress, offsetBy } from '../../address.js';
import { FastprobeError, invariant } from '../../errors.js';
import type { Register, Width } from '../registers.js';
import { Label, type Memory } from './operands.js';

/** A field to be filled with the distance from `end` to a label when all labels are bound. */
interface FixUp {
  readonly at: number;
  readonly size: 1 | 4;
  readonly end: number;
  readonly label: Label;
  readonly offset: number;
}

/** One instruction as {@link Encoder.modrm} takes it. */
export interface Form {
  /** Opcode bytes with their 0f escapes. */
  readonly opcode: readonly number[];
  readonly width: Width;
  /** Prefixes before REX: lock, or the mandatory f2, f3 of some opcodes. */
  readonly prefix?: number;
  /** The register operand, or the opcode's extension digit. */
  readonly reg: number;
  readonly rm: Register | Memory;
  /** Whether `reg` and `rm` are byte registers, for which 4–7 mean spl–dil only under a REX. */
  readonly byteReg?: boolean;
  readonly byteRm?: boolean;
  /** How many bytes of immediate follow: a RIP-relative operand counts from behind them. */
  readonly immediate?: number;
  /** True for the opcodes that are 64 bits wide without REX.W (push, indirect jump and call). */
  readonly wideByDefault?: boolean;
}

const segmentPrefix = { fs: 0x64, gs: 0x65 } as const;

/** True when a rel32 that ends at `from` reaches `to`. */
export function reaches(from: Address, to: Address): boolean {
  const distance = BigInt.asIntN(64, to - from);
  return distance === BigInt.asIntN(32, distance);
}

/**
 * Bytes being written for a known address. Owns its buffer until {@link finish}, which may be called once; before that labels
 * may be used freely, bound or not. {@link length} does not count the literals, which are placed last.
 */
export class Encoder {
  /** Where the code will run. */
  readonly base: Address;
  #bytes = new Uint8Array(256);
  #length = 0;
  #fixUps: FixUp[] = [];
  readonly #literals = new Map<bigint, Label>();

  constructor(base: Address) {
    this.base = base;
  }

  /** How many bytes there are so far. */
  get length(): number {
    return this.#length;
  }

  /** The address of the next byte. */
  get here(): Address {
    return offsetBy(this.base, this.#length);
  }

  label(name = 'label'): Label {
    return new Label(name);
  }

  /** Places the label at the next byte. */
  bind(label: Label): void {
    invariant(label.offset === undefined, `label ${label.name} is bound twice`);
    label.offset = this.#length;
  }

  /** The address of a bound label. */
  addressOf(label: Label): Address {
    invariant(label.offset !== undefined, `label ${label.name} is not bound`);
    return offsetBy(this.base, label.offset);
  }

  /** A label for 8 bytes of constant data, which {@link finish} places behind the code. Equal constants share a place. */
  literal(value: bigint): Label {
    const unsigned = BigInt.asUintN(64, value);
    let label = this.#literals.get(unsigned);
    if (label === undefined) {
      label = new Label(`literal ${formatAddress(unsigned as Address)}`);
      this.#literals.set(unsigned, label);
    }
    return label;
  }

  /** Takes back everything emitted after `length`. Labels bound behind it must not be used again. */
  rewind(length: number): void {
    invariant(length <= this.#length, 'rewinding forwards');
    this.#length = length;
    this.#fixUps = this.#fixUps.filter((fixUp) => fixUp.at < length);
  }

  /** Places the literals behind the code, fills in all labels, and returns everything. */
  finish(): Uint8Array {
    this.#placeLiterals();
    for (const { at, size, end, label, offset } of this.#fixUps) {
      invariant(label.offset !== undefined, `label ${label.name} is used but never bound`);
      const distance = label.offset + offset - end;
      if (size === 1 && distance !== (distance << 24) >> 24) throw this.outOfReach(end, label.name, 8);
      for (let i = 0; i < size; i++) this.#bytes[at + i] = distance >> (8 * i);
    }
    return this.#bytes.slice(0, this.#length);
  }

  /** Aligned, so that no literal crosses a cache line; with int3 before them, should someone run off the end of the code. */
  #placeLiterals(): void {
    const used = new Set(this.#fixUps.map((fixUp) => fixUp.label));
    const literals = [...this.#literals].filter(([, label]) => used.has(label));
    if (literals.length > 0) while (this.here % 8n !== 0n) this.byte(0xcc);
    for (const [value, label] of literals) {
      this.bind(label);
      this.quad(value);
    }
  }

  /** Appends bytes as they are. */
  raw(...bytes: readonly number[]): void {
    for (const byte of bytes) this.byte(byte);
  }

  rawBytes(bytes: Uint8Array): void {
    for (const byte of bytes) this.byte(byte);
  }

  /** Appends a little-endian integer of 1, 2, 4 or 8 bytes; what does not fit is cut off. */
  integer(value: bigint | number, size: 1 | 2 | 4 | 8): void {
    let rest = BigInt.asUintN(64, BigInt(value));
    for (let i = 0; i < size; i++, rest >>= 8n) this.byte(Number(rest & 0xffn));
  }

  /** Appends 8 bytes of data: an address to jump or load through. */
  quad(value: bigint | number): void {
    this.integer(value, 8);
  }

  protected byte(value: number): void {
    if (this.#length === this.#bytes.length) {
      const larger = new Uint8Array(this.#bytes.length * 2);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes[this.#length++] = value;
  }

  /** Prefixes, REX, opcode, ModRM, SIB and displacement. The immediate, if any, is the caller's to append. */
  protected modrm(form: Form): void {
    const { opcode, width, reg, rm } = form;
    const memory = typeof rm === 'number' ? undefined : rm;
    const based = memory !== undefined && 'base' in memory ? memory : undefined;
    if (based?.segment !== undefined) this.byte(segmentPrefix[based.segment]);
    if (width === 16) this.byte(0x66);
    if (form.prefix !== undefined) this.byte(form.prefix);
    const base = typeof rm === 'number' ? rm : (based?.base ?? 0);
    const index = based?.index ?? 0;
    const rex =
      (width === 64 && form.wideByDefault !== true ? 8 : 0) | ((reg >> 3) << 2) | ((index >> 3) << 1) | (base >> 3);
    const lowByte = (form.byteReg === true && reg >= 4) || (form.byteRm === true && typeof rm === 'number' && rm >= 4);
    if (rex !== 0 || lowByte) this.byte(0x40 | rex);
    this.raw(...opcode);
    const field = (reg & 7) << 3;
    if (typeof rm === 'number') this.byte(0xc0 | field | (rm & 7));
    else if ('rip' in rm) {
      this.byte(field | 5);
      this.relative(rm.rip, 4, rm.offset, form.immediate ?? 0);
    } else this.#based(field, rm);
  }

  #based(field: number, { base, index, scale, disp }: Exclude<Memory, { rip: unknown }>): void {
    const scaled = { 1: 0, 2: 0x40, 4: 0x80, 8: 0xc0 }[scale];
    const indexField = index === undefined ? 0x20 : (index & 7) << 3;
    if (base === undefined) {
      // No base: always SIB, because mod 0 rm 5 means RIP-relative in 64-bit mode.
      this.raw(field | 4, scaled | indexField | 5);
      this.integer(disp, 4);
      return;
    }
    // rbp and r13 cannot go without a displacement: mod 0 with their number means "no base".
    const short = disp === (disp << 24) >> 24;
    const mod = disp === 0 && (base & 7) !== 5 ? 0 : short ? 0x40 : 0x80;
    // rsp and r12 need a SIB: their number in rm announces one.
    if (index !== undefined || (base & 7) === 4) this.raw(mod | field | 4, scaled | indexField | (base & 7));
    else this.byte(mod | field | (base & 7));
    if (mod === 0x40) this.byte(disp & 0xff);
    else if (mod === 0x80) this.integer(disp, 4);
  }

  /** A relative field of `size` bytes, followed by `trailing` more bytes of the same instruction. */
  protected relative(target: Address | Label, size: 1 | 4, offset = 0, trailing = 0): void {
    const end = this.#length + size + trailing;
    if (target instanceof Label) {
      this.#fixUps.push({ at: this.#length, size, end, label: target, offset });
      this.integer(0, size);
      return;
    }
    const distance = BigInt.asIntN(64, target + BigInt(offset) - offsetBy(this.base, end));
    if (distance !== BigInt.asIntN(size * 8, distance)) throw this.outOfReach(end, formatAddress(target), size * 8);
    this.integer(distance, size);
  }

  private outOfReach(end: number, target: string, bits: number): FastprobeError {
    const from = formatAddress(offsetBy(this.base, end));
    return new FastprobeError('FASTPROBE_OUT_OF_REACH', `${target} is out of reach of ${bits} bits from ${from}`, {
      hint: 'Place the code nearer to what it refers to, or go through a register or an address in memory.',
    });
  }
}
