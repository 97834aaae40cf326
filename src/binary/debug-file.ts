// Finding the separate debug file of a stripped binary: by build-id, and by the name in .gnu_debuglink.

import { readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { FastprobeError } from '../errors.js';
import { Elf } from './elf.js';
import { Reader } from './reader.js';

/** Where to look, for a binary that may belong to another root directory (a container's `/proc/pid/root`). */
export interface DebugFileSearch {
  readonly root: string;
  readonly directories: readonly string[];
}

const crcTable = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (let index = 0; index < bytes.length; index++) {
    crc = (crcTable[(crc ^ (bytes[index] ?? 0)) & 0xff] ?? 0) ^ (crc >>> 8);
  }
  return ~crc >>> 0;
}

/** The file name and checksum that .gnu_debuglink gives for the separate debug file. */
export function debugLink(elf: Elf): { name: string; crc: number } | undefined {
  const bytes = elf.contents('.gnu_debuglink');
  if (bytes === undefined) return undefined;
  const reader = new Reader(bytes, '.gnu_debuglink');
  const name = reader.text();
  reader.seek(Math.ceil(reader.position / 4) * 4);
  return { name, crc: reader.u32() };
}

/** Every path at which the debug file of `elf` may be, the surest first. `path` is as seen from inside the root. */
export function debugFileCandidates(elf: Elf, path: string, search: DebugFileSearch): string[] {
  const inRoot = (name: string) => join(search.root, name);
  const candidates: string[] = [];
  if (elf.buildId !== undefined && elf.buildId.length > 2) {
    const name = `${elf.buildId.slice(0, 2)}/${elf.buildId.slice(2)}.debug`;
    for (const directory of search.directories) candidates.push(inRoot(join(directory, '.build-id', name)));
  }
  const link = debugLink(elf);
  // A name with a slash could lead anywhere; no tool writes one.
  if (link !== undefined && link.name !== '' && !link.name.includes('/')) {
    const folder = dirname(path);
    candidates.push(inRoot(join(folder, link.name)), inRoot(join(folder, '.debug', link.name)));
    for (const directory of search.directories) candidates.push(inRoot(join(directory, folder, link.name)));
  }
  return candidates;
}

/** The separate debug file that belongs to exactly this build of `elf`, or undefined. */
export function findDebugFile(elf: Elf, path: string, search: DebugFileSearch): Elf | undefined {
  const link = debugLink(elf);
  for (const candidate of debugFileCandidates(elf, realPath(path, search.root), search)) {
    let bytes: Uint8Array;
    try {
      bytes = readFileSync(candidate);
    } catch {
      continue; // Most candidates do not exist; that is what looking means.
    }
    const found = parseOrSkip(bytes, candidate);
    if (found === undefined) continue;
    const sameBuild = elf.buildId !== undefined && found.buildId === elf.buildId;
    const sameSum = found.buildId === undefined && link !== undefined && crc32(bytes) === link.crc;
    if ((sameBuild || sameSum) && found.section('.debug_info') !== undefined) return found;
  }
  return undefined;
}

function realPath(path: string, root: string): string {
  if (root !== '/') return path;
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function parseOrSkip(bytes: Uint8Array, name: string): Elf | undefined {
  try {
    return new Elf(bytes, name);
  } catch (error) {
    // A file that happens to be at a candidate's place but is no ELF file is not the debug file.
    if (error instanceof FastprobeError) return undefined;
    throw error;
  }
}
