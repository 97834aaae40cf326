// Landing pads: where exceptions re-enter a function, from its call-site table in .gcc_except_table (the LSDA).

import { omitted, readEncoded, readPointer } from './eh-pointers.js';
import type { Elf } from './elf.js';
import { damaged, Reader } from './reader.js';

/**
 * The landing pads in the table at address `table`, for code that begins at `functionStart`; sorted, each once.
 * The table's form is that of the Itanium C++ ABI's personality routine, which C, C++, Rust and others share.
 */
export function readLandingPads(elf: Elf, table: number, functionStart: number): number[] {
  const section = elf.sections.find(
    (candidate) =>
      candidate.address !== 0n &&
      table >= Number(candidate.address) &&
      table < Number(candidate.address) + candidate.size,
  );
  const bytes = section && elf.contentsOf(section);
  if (section === undefined || bytes === undefined)
    throw damaged('.eh_frame', 0, `the exception table 0x${table.toString(16)} is not in the file`);
  const base = Number(section.address);
  const reader = new Reader(bytes, section.name, table - base);
  const startEncoding = reader.u8();
  const padBase = startEncoding === omitted ? functionStart : (readPointer(reader, startEncoding, base) ?? 0);
  const typeEncoding = reader.u8();
  if (typeEncoding !== omitted) reader.skipLeb();
  const format = reader.u8() & 0x0f;
  const length = reader.uleb();
  const sites = new Reader(bytes, section.name, reader.position, reader.position + length);
  const pads = new Set<number>();
  while (!sites.atEnd) {
    readEncoded(sites, format); // where the covered calls begin
    readEncoded(sites, format); // and how long that code is
    const pad = readEncoded(sites, format);
    sites.skipLeb(); // what is caught
    // 0 says that nothing is done there, whatever the base is.
    if (pad !== 0) pads.add(padBase + pad);
  }
  return [...pads].sort((a, b) => a - b);
}
