// Pointers as .eh_frame and .gcc_except_table write them (Linux Standard Base, "DWARF Exception Header Encoding").

import type { Reader } from './reader.js';

/** The encoding that says that there is no pointer. */
export const omitted = 0xff;

/**
 * A pointer in one of the DW_EH_PE encodings; undefined for a null pointer and for those that need a process.
 * `sectionAddress` is where the reader's bytes begin.
 */
export function readPointer(reader: Reader, encoding: number, sectionAddress: number): number | undefined {
  const place = sectionAddress + reader.position;
  const value = readEncoded(reader, encoding & 0x0f);
  if ((encoding & 0x80) !== 0 || value === 0) return undefined;
  const application = encoding & 0x70;
  if (application === 0) return value;
  return application === 0x10 ? place + value : undefined;
}

/** The number under a pointer: how it is written (`format`), not what it is relative to. */
export function readEncoded(reader: Reader, format: number): number {
  switch (format) {
    case 0x00:
    case 0x04:
      return reader.u64Number();
    case 0x01:
      return reader.uleb();
    case 0x02:
      return reader.u16();
    case 0x03:
      return reader.u32();
    case 0x09:
      return reader.sleb();
    case 0x0a:
      return (reader.u16() << 16) >> 16;
    case 0x0b:
      return reader.s32();
    case 0x0c:
      return Number(reader.s64());
    default:
      throw reader.fail(`a pointer has the unknown format ${format}`);
  }
}
