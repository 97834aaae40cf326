// The entries of .eh_frame and .debug_frame: which code has frame information, and where its exception table is.

import { omitted, readEncoded, readPointer } from './eh-pointers.js';
import type { Elf } from './elf.js';
import { damaged, Reader } from './reader.js';

/** A section of frame information. Two formats that differ in how entries refer to each other and to code. */
interface FrameSection {
  readonly name: '.eh_frame' | '.debug_frame';
  readonly bytes: Uint8Array;
  readonly address: number;
}

/** What the entries (FDE) of a group of functions share. */
export interface Common {
  readonly codeFactor: number;
  readonly dataFactor: number;
  readonly pointerEncoding: number;
  /** How entries give the place of their exception table; undefined if they have none. */
  readonly tableEncoding: number | undefined;
  readonly hasAugmentation: boolean;
  /** The instructions that come before those of each entry. */
  readonly start: number;
  readonly end: number;
}

/** The frame information of one function, or of a part that was split off. `start` and `end` bound its instructions. */
export interface FrameEntry {
  readonly low: number;
  readonly high: number;
  readonly common: Common;
  /** The address of its exception table (LSDA). */
  readonly table: number | undefined;
  readonly section: FrameSection;
  readonly start: number;
  readonly end: number;
}

/**
 * Every entry, sorted by address. The binary's .eh_frame is what its unwinder believes; .debug_frame, in the binary or its
 * debug file, has what is not there (Go, and C without unwind tables).
 */
export function readFrameEntries(code: Elf, debug: Elf): FrameEntry[] {
  const entries = readSection(code, '.eh_frame');
  const covered = new Set(entries.map(({ low }) => low));
  const others = [...new Set([code, debug])]
    .flatMap((elf) => readSection(elf, '.debug_frame'))
    .filter(({ low }) => !covered.has(low));
  return [...entries, ...others].sort((a, b) => a.low - b.low);
}

function readSection(elf: Elf, name: FrameSection['name']): FrameEntry[] {
  const bytes = elf.contents(name);
  if (bytes === undefined) return [];
  const section = { name, bytes, address: Number(elf.section(name)?.address ?? 0) };
  const commonMark = name === '.eh_frame' ? 0 : 0xffffffff;
  const commons = new Map<number, Common | undefined>();
  const entries: FrameEntry[] = [];
  for (let offset = 0; offset + 4 <= bytes.length; ) {
    const reader = new Reader(bytes, name, offset);
    const length = reader.u32();
    const idPosition = reader.position;
    offset = idPosition + length;
    // An end mark; a linker may have put more behind it.
    if (length === 0) continue;
    // 64-bit lengths (0xffffffff) are for sections beyond 4 GB, which no one has.
    if (offset > bytes.length) throw damaged(name, idPosition, 'an entry is longer than the section');
    const id = reader.u32();
    if (id === commonMark) continue;
    const commonAt = name === '.eh_frame' ? idPosition - id : id;
    if (!commons.has(commonAt)) commons.set(commonAt, readCommon(section, commonAt, commonMark));
    const common = commons.get(commonAt);
    const entry = common && readEntry(section, reader, common, offset);
    if (entry !== undefined) entries.push(entry);
  }
  return entries;
}

function readEntry(section: FrameSection, reader: Reader, common: Common, end: number): FrameEntry | undefined {
  const low = readPointer(reader, common.pointerEncoding, section.address);
  const size = readEncoded(reader, common.pointerEncoding & 0x0f);
  // The linker leaves entries of code that it threw away at address 0.
  if (low === undefined || low <= 0 || size <= 0) return undefined;
  let table: number | undefined;
  if (common.hasAugmentation) {
    const next = reader.uleb() + reader.position;
    if (common.tableEncoding !== undefined) table = readPointer(reader, common.tableEncoding, section.address);
    reader.seek(next);
  }
  return { low, high: low + size, common, table, section, start: reader.position, end };
}

/** A common entry (CIE); undefined for one of a form that is not written for x86-64. */
function readCommon({ bytes, name, address }: FrameSection, offset: number, mark: number): Common | undefined {
  const reader = new Reader(bytes, name, offset);
  const length = reader.u32();
  const end = reader.position + length;
  if (end > bytes.length) throw damaged(name, offset, 'an entry is longer than the section');
  if (reader.u32() !== mark) throw damaged(name, offset, 'an entry refers to one that is not common');
  const version = reader.u8();
  if (version !== 1 && version !== 3 && version !== 4) return undefined;
  const augmentation = reader.text();
  // Since version 4: the sizes of addresses and of segment selectors.
  if (version === 4 && (reader.u8() !== 8 || reader.u8() !== 0)) return undefined;
  const codeFactor = reader.uleb();
  const dataFactor = reader.sleb();
  if (version === 1) reader.skip(1);
  else reader.skipLeb();
  let pointerEncoding = 0;
  let tableEncoding: number | undefined;
  const hasAugmentation = augmentation.startsWith('z');
  if (!hasAugmentation && augmentation !== '') return undefined;
  if (hasAugmentation) {
    const size = reader.uleb();
    const next = reader.position + size;
    for (const letter of augmentation.slice(1)) {
      if (letter === 'R') pointerEncoding = reader.u8();
      else if (letter === 'L') tableEncoding = reader.u8();
      else if (letter === 'P') readPointer(reader, reader.u8(), address);
      else if (letter !== 'S' && letter !== 'B') return undefined;
    }
    reader.seek(next);
  }
  if (tableEncoding === omitted) tableEncoding = undefined;
  return { codeFactor, dataFactor, pointerEncoding, tableEncoding, hasAugmentation, start: reader.position, end };
}
