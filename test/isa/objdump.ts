// Real code to test with, and what objdump says about it: the oracle that is neither Capstone nor iced.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type Address, address } from '../../src/address.js';

export interface Section {
  readonly name: string;
  readonly address: Address;
  readonly bytes: Uint8Array;
}

/** The libc that this very process runs on: real, optimised, hand-written and vectorised code. */
export const libcPath = (() => {
  const line = readFileSync('/proc/self/maps', 'utf8')
    .split('\n')
    .find((text) => /\/libc[.-][^/]*$/.test(text));
  if (line === undefined) throw new Error('this process maps no libc');
  return line.slice(line.indexOf('/'));
})();

/** A section of an ELF file, found with readelf. */
export function readSection(path: string, name: string): Section {
  const table = execFileSync('readelf', ['-SW', path], { encoding: 'utf8' });
  for (const line of table.split('\n')) {
    const row = /^\s*\[\s*\d+\]\s+(\S+)\s+\S+\s+([0-9a-f]+)\s+([0-9a-f]+)\s+([0-9a-f]+)/.exec(line);
    if (row?.[1] !== name) continue;
    const offset = Number.parseInt(row[3] ?? '', 16);
    const size = Number.parseInt(row[4] ?? '', 16);
    const file = readFileSync(path);
    return { name, address: address(`0x${row[2]}`), bytes: Uint8Array.from(file.subarray(offset, offset + size)) };
  }
  throw new Error(`${path} has no section ${name}`);
}

export interface Line {
  readonly address: Address;
  readonly bytes: Uint8Array;
  readonly text: string;
}

/** `objdump -d` of an address range, one line per instruction. */
export function objdump(path: string, start: bigint, end: bigint): Line[] {
  const output = execFileSync(
    'objdump',
    ['-d', '-w', '-M', 'intel', `--start-address=${start}`, `--stop-address=${end}`, path],
    { encoding: 'utf8', maxBuffer: 1 << 28 },
  );
  const lines: Line[] = [];
  for (const line of output.split('\n')) {
    const row = /^\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t?(.*)$/.exec(line);
    if (row === null) continue;
    const bytes = Uint8Array.from(Buffer.from((row[2] ?? '').replaceAll(' ', ''), 'hex'));
    lines.push({ address: address(`0x${row[1]}`), bytes, text: (row[3] ?? '').trim() });
  }
  return lines;
}

/** The bytes written as hexadecimal text, blanks ignored. */
export function hex(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'));
}
