// Reading bytes of a file that may be truncated or hostile: every read is checked, and a failure names section and offset.

import { FastprobeError } from '../errors.js';

/** The error for a file that ends too early or contradicts itself. */
export function damaged(section: string, offset: number, what: string): FastprobeError {
  return new FastprobeError('FASTPROBE_BINARY_DAMAGED', `${section} at offset 0x${offset.toString(16)}: ${what}`, {
    hint: 'the file is truncated or was changed: rebuild or reinstall it, then try again',
  });
}

/**
 * What an address beyond 2^53 reads as. No user program is linked that high; linkers write such values as tombstones for
 * code they threw away, and plain numbers keep the hot loops fast.
 */
export const tombstone = Number.MAX_SAFE_INTEGER;

const utf8 = new TextDecoder();

/** A position in the bytes of one section. Owns no memory; never reads outside [start, end). */
export class Reader {
  readonly bytes: Uint8Array;
  readonly section: string;
  readonly end: number;
  position: number;
  private readonly view: DataView;

  constructor(bytes: Uint8Array, section: string, position = 0, end = bytes.length) {
    this.bytes = bytes;
    this.section = section;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.end = end;
    this.position = position;
    if (end > bytes.length || position > end || position < 0)
      throw damaged(section, position, 'lies outside the section');
  }

  get atEnd(): boolean {
    return this.position >= this.end;
  }

  fail(what: string): FastprobeError {
    return damaged(this.section, this.position, what);
  }

  /** Moves past `length` bytes and returns where they began. */
  private take(length: number): number {
    const start = this.position;
    // `!(a <= b)` also catches NaN.
    if (!(start + length <= this.end) || length < 0) throw this.fail(`${length} bytes are needed, the section ends`);
    this.position = start + length;
    return start;
  }

  skip(length: number): void {
    this.take(length);
  }

  seek(position: number): void {
    if (!(position >= 0 && position <= this.end)) throw damaged(this.section, position, 'lies outside the section');
    this.position = position;
  }

  u8(): number {
    return this.view.getUint8(this.take(1));
  }

  s8(): number {
    return this.view.getInt8(this.take(1));
  }

  u16(): number {
    return this.view.getUint16(this.take(2), true);
  }

  u24(): number {
    const start = this.take(3);
    return this.view.getUint16(start, true) + this.view.getUint8(start + 2) * 0x10000;
  }

  u32(): number {
    return this.view.getUint32(this.take(4), true);
  }

  s32(): number {
    return this.view.getInt32(this.take(4), true);
  }

  u64(): bigint {
    return this.view.getBigUint64(this.take(8), true);
  }

  s64(): bigint {
    return this.view.getBigInt64(this.take(8), true);
  }

  /** A 64-bit size, offset or address as a number; beyond 2^53 it is the {@link tombstone}. */
  u64Number(): number {
    const start = this.take(8);
    const high = this.view.getUint32(start + 4, true);
    return high > 0x1fffff ? tombstone : high * 0x1_0000_0000 + this.view.getUint32(start, true);
  }

  /** A signed 64-bit number; beyond 2^53 only its size is right. */
  s64Number(): number {
    const start = this.take(8);
    return this.view.getInt32(start + 4, true) * 0x1_0000_0000 + this.view.getUint32(start, true);
  }

  /** A DWARF offset: 4 or 8 bytes as the unit's format says. */
  offset(size: 4 | 8): number {
    return size === 4 ? this.u32() : this.u64Number();
  }

  uleb(): number {
    let result = 0;
    let factor = 1;
    for (let count = 0; count < 10; count++) {
      const byte = this.u8();
      result += (byte & 0x7f) * factor;
      if (byte < 0x80) return Math.min(result, tombstone);
      factor *= 0x80;
    }
    throw this.fail('a LEB128 number is longer than 64 bits');
  }

  /** A signed LEB128 as a number; far beyond what offsets and line advances need, precision ends at 2^53. */
  sleb(): number {
    let result = 0;
    let factor = 1;
    for (let count = 0; count < 10; count++) {
      const byte = this.u8();
      result += (byte & 0x7f) * factor;
      factor *= 0x80;
      if (byte < 0x80) return byte & 0x40 ? result - factor : result;
    }
    throw this.fail('a LEB128 number is longer than 64 bits');
  }

  ulebBig(): bigint {
    let result = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.u8();
      result |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, result);
    }
    throw this.fail('a LEB128 number is longer than 64 bits');
  }

  slebBig(): bigint {
    let result = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.u8();
      result |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, byte & 0x40 ? result - (1n << (shift + 7n)) : result);
    }
    throw this.fail('a LEB128 number is longer than 64 bits');
  }

  skipLeb(): void {
    for (let count = 0; count < 10; count++) if (this.u8() < 0x80) return;
    throw this.fail('a LEB128 number is longer than 64 bits');
  }

  chunk(length: number): Uint8Array {
    const start = this.take(length);
    return this.bytes.subarray(start, start + length);
  }

  /** Text up to a zero byte. */
  text(): string {
    const start = this.position;
    const zero = this.skipText();
    return utf8.decode(this.bytes.subarray(start, zero));
  }

  /** Moves past a zero-terminated text; returns where its zero is. */
  skipText(): number {
    const zero = this.bytes.indexOf(0, this.position);
    if (zero < 0 || zero >= this.end) throw this.fail('a text has no end');
    this.position = zero + 1;
    return zero;
  }
}

/** The text at `offset` of a string section. */
export function textAt(bytes: Uint8Array, section: string, offset: number): string {
  return new Reader(bytes, section, offset).text();
}
