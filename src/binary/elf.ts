// The ELF file: header, segments, sections (also compressed ones), notes, and how file addresses become runtime addresses.

import { inflateSync } from 'node:zlib';
import { type Address, address, formatAddress } from '../address.js';
import { FastprobeError } from '../errors.js';
import { damaged, Reader, textAt, tombstone } from './reader.js';

/** A piece of the file that the loader maps. Addresses are file virtual addresses: add the load bias for a process. */
export interface Segment {
  readonly address: Address;
  readonly fileOffset: number;
  readonly fileSize: number;
  readonly memorySize: number;
  readonly alignment: number;
  readonly isReadable: boolean;
  readonly isWritable: boolean;
  readonly isExecutable: boolean;
}

export interface Section {
  readonly name: string;
  readonly index: number;
  readonly type: number;
  readonly flags: number;
  /** 0 for a section that is not loaded. */
  readonly address: Address;
  readonly fileOffset: number;
  readonly size: number;
  /** The index of the section this one refers to, such as a symbol table's strings. */
  readonly link: number;
  readonly isExecutable: boolean;
}

export const sectionType = { symbolTable: 2, noteTable: 7, noBits: 8, dynamicSymbols: 11 } as const;
const sectionFlag = { alloc: 2, executable: 4, compressed: 0x800 } as const;
const segmentType = { load: 1, interpreter: 3, note: 4, threadLocal: 7 } as const;
const pageSize = 4096;
/** No deflate stream expands further, so a larger claim is a lie and not worth the memory. */
const largestDeflateRatio = 1032;

function notOurs(name: string, why: string): FastprobeError {
  return new FastprobeError('FASTPROBE_NOT_X86_64_ELF', `${name} is not an x86-64 ELF file: ${why}`, {
    hint: 'give the program or shared library itself, built for x86-64 Linux; a script has none, its interpreter has',
  });
}

/** One ELF64 little-endian x86-64 file. Holds the file's bytes; section contents are views of them. */
export class Elf {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** PIE and shared objects are placed anywhere; other executables at the addresses in the file. */
  readonly isPie: boolean;
  readonly entry: Address;
  readonly interpreter: string | undefined;
  readonly segments: readonly Segment[];
  /** What each thread gets a copy of; undefined without thread-local variables. */
  readonly threadSegment: Segment | undefined;
  readonly sections: readonly Section[];
  readonly buildId: string | undefined;
  private readonly byName = new Map<string, Section>();
  private readonly inflated = new Map<number, Uint8Array>();

  constructor(bytes: Uint8Array, name: string) {
    this.name = name;
    this.bytes = bytes;
    const reader = new Reader(bytes, 'ELF header');
    if (bytes.length < 16 || reader.u32() !== 0x464c457f) throw notOurs(name, 'it does not begin with \\x7fELF');
    if (reader.u8() !== 2) throw notOurs(name, 'it is a 32-bit file');
    if (reader.u8() !== 1) throw notOurs(name, 'it is big-endian');
    reader.seek(16);
    const type = reader.u16();
    const machine = reader.u16();
    if (machine !== 62) throw notOurs(name, `it is for machine type ${machine}`);
    if (type !== 2 && type !== 3) throw notOurs(name, `its type is ${type}, neither program nor shared object`);
    this.isPie = type === 3;
    reader.skip(4);
    this.entry = address(reader.u64());
    const programHeaders = reader.u64Number();
    const sectionHeaders = reader.u64Number();
    reader.seek(54);
    const segmentSize = reader.u16();
    const segmentCount = reader.u16();
    const sectionSize = reader.u16();
    const sectionCount = reader.u16();
    const nameIndex = reader.u16();

    const segments: Segment[] = [];
    const notes: { offset: number; size: number }[] = [];
    let interpreter: string | undefined;
    let threadSegment: Segment | undefined;
    if (segmentCount > 0 && segmentSize !== 56) throw damaged('ELF header', 54, 'the segment size is not 56');
    for (let index = 0; index < segmentCount; index++) {
      const { kind, segment } = readSegment(new Reader(bytes, 'program headers', programHeaders + index * 56));
      if (kind === segmentType.load) segments.push(segment);
      if (kind === segmentType.note) notes.push({ offset: segment.fileOffset, size: segment.fileSize });
      if (kind === segmentType.threadLocal) threadSegment = segment;
      if (kind === segmentType.interpreter) interpreter = textAt(bytes, 'interpreter', segment.fileOffset);
    }
    this.segments = segments;
    this.threadSegment = threadSegment;
    this.interpreter = interpreter;
    this.sections = this.readSections(sectionHeaders, sectionSize, sectionCount, nameIndex);
    for (const section of this.sections) {
      if (!this.byName.has(section.name)) this.byName.set(section.name, section);
      // A separate debug file's note segment has no bytes, its note section has.
      if (section.type === sectionType.noteTable) notes.unshift({ offset: section.fileOffset, size: section.size });
    }
    this.buildId = findBuildId(bytes, notes);
  }

  private readSections(offset: number, entrySize: number, count: number, nameIndex: number): Section[] {
    if (offset === 0) return [];
    if (entrySize !== 64) throw damaged('ELF header', 58, 'the section header size is not 64');
    let total = count;
    let names = nameIndex;
    if (count === 0 || nameIndex === 0xffff) {
      // More than 65,279 sections: the real numbers are in section 0 (System V ABI, "Sections").
      const first = new Reader(this.bytes, 'section headers', offset + 32);
      if (count === 0) total = first.u64Number();
      else first.skip(8);
      if (nameIndex === 0xffff) names = first.u32();
    }
    if (!(offset + total * 64 <= this.bytes.length))
      throw damaged('section headers', offset, 'the file ends before them');
    const raw = Array.from({ length: total }, (_, index) =>
      readSection(new Reader(this.bytes, 'section headers', offset + index * 64), index),
    );
    const strings = raw[names];
    if (strings === undefined) throw damaged('section headers', offset, 'the section with their names is missing');
    const bytes = this.view(strings.fileOffset, strings.size, '.shstrtab');
    return raw.map(({ nameOffset, ...section }) => ({ ...section, name: textAt(bytes, '.shstrtab', nameOffset) }));
  }

  private view(offset: number, size: number, name: string): Uint8Array {
    if (!(offset + size <= this.bytes.length)) throw damaged(name, offset, `its ${size} bytes lie outside the file`);
    return this.bytes.subarray(offset, offset + size);
  }

  section(name: string): Section | undefined {
    return this.byName.get(name);
  }

  /** The bytes of a section, decompressed if need be; undefined if there is none or it has no bytes in this file. */
  contents(name: string): Uint8Array | undefined {
    const section = this.byName.get(name);
    return section === undefined ? undefined : this.contentsOf(section);
  }

  contentsOf(section: Section): Uint8Array | undefined {
    if (section.type === sectionType.noBits) return undefined;
    const raw = this.view(section.fileOffset, section.size, section.name);
    if ((section.flags & sectionFlag.compressed) === 0) return raw;
    let plain = this.inflated.get(section.index);
    if (plain === undefined) {
      plain = inflateSection(raw, section.name);
      this.inflated.set(section.index, plain);
    }
    return plain;
  }

  /** True for a program, also one that can be placed anywhere; false for a shared library. */
  get isProgram(): boolean {
    if (!this.isPie) return true;
    const dynamic = this.contents('.dynamic');
    if (dynamic === undefined) return false;
    for (const reader = new Reader(dynamic, '.dynamic'); reader.position + 16 <= dynamic.length; ) {
      const tag = reader.u64Number();
      const value = reader.u64Number();
      // DT_FLAGS_1 with DF_1_PIE: a library has no other sign that no linker leaves out.
      if (tag === 0x6ffffffb) return Math.floor(value / 0x8000000) % 2 === 1;
    }
    return false;
  }

  /** The loaded section in which `at` lies, such as `.text` or `.plt`. */
  sectionOf(at: Address): Section | undefined {
    return this.sections.find(
      (section) =>
        (section.flags & sectionFlag.alloc) !== 0 &&
        at >= section.address &&
        at < section.address + BigInt(section.size),
    );
  }

  /** The bytes that the loader puts at file address `at`; what lies past the file's part of a segment reads as zero. */
  readStatic(at: Address, length: number): Uint8Array {
    const segment = this.segments.find(
      (candidate) => at >= candidate.address && at < candidate.address + BigInt(candidate.memorySize),
    );
    if (segment === undefined) throw notInFile(this.name, at);
    const into = Number(at - segment.address);
    if (into + length > segment.memorySize) throw notInFile(this.name, address(at + BigInt(length) - 1n));
    const available = Math.max(0, Math.min(length, segment.fileSize - into));
    const bytes = this.view(segment.fileOffset + into, available, 'segment');
    if (available === length) return bytes;
    if (length > 1 << 24) throw notInFile(this.name, at);
    const padded = new Uint8Array(length);
    padded.set(bytes);
    return padded;
  }

  /**
   * What to add to file addresses for a process that has the part of this file at `fileOffset` mapped at `mappingStart`
   * (a line of /proc/pid/maps). Where two segments share a page of the file the executable one is meant.
   */
  loadBias(mappingStart: Address, fileOffset: number): bigint {
    const matching = this.segments.filter(
      (segment) =>
        segment.fileOffset - (segment.fileOffset % pageSize) <= fileOffset &&
        fileOffset < segment.fileOffset + segment.fileSize,
    );
    const segment = matching.find((candidate) => candidate.isExecutable) ?? matching[0];
    if (segment === undefined) {
      throw new FastprobeError('FASTPROBE_BAD_ARGUMENT', `${this.name} loads nothing from offset ${fileOffset}`, {
        hint: 'give the start and the offset of one mapping of this file, as in /proc/pid/maps',
      });
    }
    return mappingStart - (segment.address - BigInt(segment.fileOffset) + BigInt(fileOffset));
  }
}

function notInFile(name: string, at: Address): FastprobeError {
  return new FastprobeError('FASTPROBE_ADDRESS_NOT_IN_FILE', `${name} has nothing at ${formatAddress(at)}`, {
    hint: 'file addresses are meant: subtract the load bias from an address of a running process',
  });
}

function readSegment(reader: Reader): { kind: number; segment: Segment } {
  const kind = reader.u32();
  const flags = reader.u32();
  const fileOffset = reader.u64Number();
  const at = address(reader.u64());
  reader.skip(8);
  const segment = {
    address: at,
    fileOffset,
    fileSize: reader.u64Number(),
    memorySize: reader.u64Number(),
    alignment: reader.u64Number(),
    isExecutable: (flags & 1) !== 0,
    isWritable: (flags & 2) !== 0,
    isReadable: (flags & 4) !== 0,
  };
  return { kind, segment };
}

function readSection(reader: Reader, index: number): Omit<Section, 'name'> & { nameOffset: number } {
  const nameOffset = reader.u32();
  const type = reader.u32();
  const flags = reader.u64Number();
  const at = address(reader.u64());
  const fileOffset = reader.u64Number();
  const size = reader.u64Number();
  const isExecutable = flags !== tombstone && (flags & sectionFlag.executable) !== 0;
  return { nameOffset, index, type, flags, address: at, fileOffset, size, link: reader.u32(), isExecutable };
}

function inflateSection(raw: Uint8Array, name: string): Uint8Array {
  const reader = new Reader(raw, name);
  const method = reader.u32();
  reader.skip(4);
  const size = reader.u64Number();
  reader.skip(8);
  if (method !== 1) {
    throw new FastprobeError(
      'FASTPROBE_DEBUG_INFO_UNSUPPORTED',
      `${name} is compressed by method ${method}, not zlib`,
      {
        hint: 'decompress a copy with `objcopy --decompress-debug-sections`, or link with -gz=zlib',
      },
    );
  }
  const packed = raw.subarray(reader.position);
  if (size > packed.length * largestDeflateRatio) throw damaged(name, 8, `claims to inflate to ${size} bytes`);
  let plain: Uint8Array;
  try {
    plain = inflateSync(packed, { maxOutputLength: Math.max(size, 1) });
  } catch (cause) {
    throw damaged(name, reader.position, `does not inflate (${cause instanceof Error ? cause.message : cause})`);
  }
  if (plain.length !== size) throw damaged(name, 8, `inflates to ${plain.length} bytes, not ${size}`);
  return plain;
}

/** The GNU build-id as hex text. A note that is cut off is passed over: it only costs the id. */
function findBuildId(bytes: Uint8Array, notes: readonly { offset: number; size: number }[]): string | undefined {
  for (const { offset, size } of notes) {
    let at = offset;
    const end = Math.min(offset + size, bytes.length);
    while (at + 12 <= end) {
      const reader = new Reader(bytes, 'note', at, end);
      const nameSize = reader.u32();
      const contentSize = reader.u32();
      const kind = reader.u32();
      const content = at + 12 + Math.ceil(nameSize / 4) * 4;
      const next = content + Math.ceil(contentSize / 4) * 4;
      if (next > end) break;
      if (kind === 3 && nameSize === 4 && reader.u32() === 0x554e47) {
        return Buffer.from(bytes.subarray(content, content + contentSize)).toString('hex');
      }
      at = next;
    }
  }
  return undefined;
}
