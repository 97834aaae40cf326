// The entries of .eh_frame: which code has frame information, what each function shares, and where its exception table is.

import { omitted, readPointer } from './eh-pointers.js';
import type { Elf } from './elf.js';
import { damaged, Reader } from './reader.js';

/** What the entries (FDE) of a group of functions share. */
export interface Common {
  readonly codeFactor: number;
  readonly dataFactor: number;
  readonly pointerEncoding: number;
  /** How entries give the place of their exception table; undefined if they have none. */
  readonly tableEncoding: number | undefined;
  readonly hasAugmentation: boolean;
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
  readonly start: number;
  readonly end: number;
}

/** Every entry, sorted by address. */
export function readFrameEntries(elf: Elf): FrameEntry[] {
  const section = elf.section('.eh_frame');
  const bytes = elf.contents('.eh_frame');
  if (section === undefined || bytes === undefined) return [];
  const base = Number(section.address);
  const commons = new Map<number, Common | undefined>();
  const entries: FrameEntry[] = [];
  for (let offset = 0; offset + 4 <= bytes.length; ) {
    const reader = new Reader(bytes, '.eh_frame', offset);
    let length = reader.u32();
    if (length === 0) {
      // An end mark; a linker may have put more behind it.
      offset = reader.position;
      continue;
    }
    if (length === 0xffffffff) length = reader.u64Number();
    const idPosition = reader.position;
    const end = idPosition + length;
    if (end > bytes.length) throw damaged('.eh_frame', offset, 'an entry is longer than the section');
    offset = end;
    const id = reader.u32();
    if (id === 0) continue;
    const commonAt = idPosition - id;
    if (!commons.has(commonAt)) commons.set(commonAt, readCommon(bytes, commonAt));
    const common = commons.get(commonAt);
    if (common === undefined) continue;
    const low = readPointer(reader, common.pointerEncoding, base);
    const size = readPointer(reader, common.pointerEncoding & 0x0f, base);
    // The linker leaves entries of code that it threw away at address 0.
    if (low === undefined || size === undefined || low <= 0 || size <= 0) continue;
    let table: number | undefined;
    if (common.hasAugmentation) {
      const next = reader.uleb() + reader.position;
      if (common.tableEncoding !== undefined) table = readPointer(reader, common.tableEncoding, base);
      reader.seek(next);
    }
    entries.push({ low, high: low + size, common, table, start: reader.position, end });
  }
  return entries.sort((a, b) => a.low - b.low);
}

/** A common entry (CIE); undefined for one of a form that is not written for x86-64. */
function readCommon(bytes: Uint8Array, offset: number): Common | undefined {
  const reader = new Reader(bytes, '.eh_frame', offset);
  const length = reader.u32();
  const end = reader.position + length;
  if (end > bytes.length) throw damaged('.eh_frame', offset, 'an entry is longer than the section');
  if (reader.u32() !== 0) throw damaged('.eh_frame', offset, 'an entry refers to one that is not common');
  const version = reader.u8();
  if (version !== 1 && version !== 3) return undefined;
  const augmentation = reader.text();
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
      else if (letter === 'P') readPointer(reader, reader.u8(), 0);
      else if (letter !== 'S' && letter !== 'B') return undefined;
    }
    reader.seek(next);
  }
  if (tableEncoding === omitted) tableEncoding = undefined;
  return { codeFactor, dataFactor, pointerEncoding, tableEncoding, hasAugmentation, start: reader.position, end };
}
