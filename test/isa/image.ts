// An ELF file as tests need it: its functions (from .eh_frame), its constant data, where its code is.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type Address, address, offsetBy } from '../../src/address.js';
import type { FlowOptions } from '../../src/isa/flow.js';

export interface FunctionRange {
  readonly start: Address;
  readonly end: Address;
}

export interface ImageSection {
  readonly name: string;
  readonly start: Address;
  readonly end: Address;
  readonly offset: number;
  readonly flags: string;
}

export class Image {
  readonly path: string;
  readonly file: Buffer;
  readonly sections: readonly ImageSection[];

  /** `more` are parts of the file that its section headers do not name. */
  constructor(path: string, more: readonly ImageSection[] = []) {
    this.path = path;
    this.file = readFileSync(path);
    this.sections = [...sectionsOf(path), ...more];
  }

  /** True for a shared object or a program of that kind (ET_DYN). */
  get isPositionIndependent(): boolean {
    return this.file.readUInt16LE(16) === 3;
  }

  section(name: string): ImageSection {
    const found = this.sections.find((section) => section.name === name);
    if (found === undefined) throw new Error(`${this.path} has no ${name}`);
    return found;
  }

  /** The bytes in memory, of any section with contents. */
  bytes(at: Address, size: number): Uint8Array {
    const offset = this.offsetOf(at, size);
    if (offset === undefined) throw new Error(`${this.path} has nothing at ${at.toString(16)}`);
    return Uint8Array.from(this.file.subarray(offset, offset + size));
  }

  offsetOf(at: Address, size: number): number | undefined {
    const found = this.sections.find(({ start, end }) => at >= start && at + BigInt(size) <= end);
    return found === undefined ? undefined : found.offset + Number(at - found.start);
  }

  /** What the flow analysis may know of this file. */
  get options(): Required<Pick<FlowOptions, 'read' | 'isCode' | 'isImportSlot'>> {
    const inside = (sections: readonly ImageSection[]) => (at: Address) =>
      sections.some(({ start, end }) => at >= start && at < end);
    const isConstant = inside(this.sections.filter(({ flags }) => !flags.includes('W')));
    return {
      read: (at, size) => (isConstant(at) && this.offsetOf(at, size) !== undefined ? this.bytes(at, size) : undefined),
      isCode: inside(this.sections.filter(({ flags }) => flags.includes('X'))),
      isImportSlot: inside(this.sections.filter(({ name }) => name.startsWith('.got'))),
    };
  }

  /** Every range that .eh_frame describes, found through the search table; LSB core, section 10.6. */
  functions(): FunctionRange[] {
    const header = this.section('.eh_frame_hdr');
    const frames = this.section('.eh_frame');
    const view = new DataView(this.file.buffer, this.file.byteOffset, this.file.length);
    if (view.getUint32(header.offset, true) !== 0x3b031b01) throw new Error(`${this.path}: an unusual .eh_frame_hdr`);
    const count = view.getUint32(header.offset + 8, true);
    return Array.from({ length: count }, (_, i) => {
      const entry = header.offset + 12 + i * 8;
      const start = offsetBy(header.start, view.getInt32(entry, true));
      const frame = offsetBy(header.start, view.getInt32(entry + 4, true));
      const size = view.getUint32(frames.offset + Number(frame - frames.start) + 12, true);
      return { start, end: offsetBy(start, size) };
    });
  }
}

function sectionsOf(path: string): ImageSection[] {
  const table = execFileSync('readelf', ['-SW', path], { encoding: 'utf8' });
  const row = /^\s*\[\s*\d+\]\s+(\S+)\s+(\S+)\s+([0-9a-f]+)\s+([0-9a-f]+)\s+([0-9a-f]+)\s+[0-9a-f]+\s+(\S*)\s/gm;
  return [...table.matchAll(row)].flatMap(([, name = '', type, start, offset, size, flags = '']) =>
    type === 'NOBITS' || !flags.includes('A')
      ? []
      : [
          {
            name,
            start: address(`0x${start}`),
            end: address(BigInt(`0x${start}`) + BigInt(`0x${size}`)),
            offset: Number.parseInt(offset ?? '', 16),
            flags,
          },
        ],
  );
}
