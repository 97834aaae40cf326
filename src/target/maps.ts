// The memory map of a target, and the files behind it.

import { closeSync, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { type Address, address } from '../address.js';

export interface Mapping {
  start: Address;
  /** The first address behind it. */
  end: Address;
  readable: boolean;
  writable: boolean;
  executable: boolean;
  shared: boolean;
  /** Where in the file the mapping begins. */
  offset: bigint;
  /** As the target names the file; `[heap]`, `[stack]`, `[vdso]` for the kernel's own; empty for anonymous memory. */
  path: string;
  device: string;
  inode: bigint;
  /** The file was deleted since it was mapped; `path` is where it was. */
  deleted: boolean;
}

const deletedMark = ' (deleted)';
const line = /^([0-9a-f]+)-([0-9a-f]+) ([r-])([w-])([x-])([ps]) ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+) *(.*)$/;

/** Parses the text of /proc/pid/maps. Lines of another form (there are none today) are left out. */
export function parseMaps(text: string): Mapping[] {
  return text.split('\n').flatMap((row) => {
    const match = line.exec(row);
    if (match === null) return [];
    const [, start = '', end = '', r, w, x, s, offset = '', device = '', inode = '', rawName = ''] = match;
    const inodeNumber = BigInt(inode);
    // The kernel writes a newline in a name as \012; everything else stands as it is.
    const name = rawName.replaceAll('\\012', '\n');
    const deleted = inodeNumber !== 0n && name.endsWith(deletedMark);
    return [
      {
        start: address(`0x${start}`),
        end: address(`0x${end}`),
        readable: r === 'r',
        writable: w === 'w',
        executable: x === 'x',
        shared: s === 's',
        offset: BigInt(`0x${offset}`),
        path: deleted ? name.slice(0, -deletedMark.length) : name,
        device,
        inode: inodeNumber,
        deleted,
      },
    ];
  });
}

export function readMaps(pid: number): Mapping[] {
  return parseMaps(readFileSync(`/proc/${pid}/maps`, 'utf8'));
}

/** What became of the file behind a mapping. */
export type MappedFile =
  | { state: 'same'; path: string; buildId: string | undefined }
  /** Deleted, or another file has its name now; `path`, if given, still reaches the mapped one. */
  | { state: 'deleted' | 'replaced'; path: string | undefined; buildId: string | undefined }
  /** Not a file: anonymous, or the kernel's own. */
  | { state: 'none' };

/**
 * Finds the file behind a mapping as the target sees it, through /proc/pid/root, so that it is right for a target in a
 * container. A deleted or replaced file can still be read through /proc/pid/map_files where the kernel lets us.
 */
export function mappedFile(pid: number, mapping: Mapping): MappedFile {
  if (mapping.inode === 0n || !mapping.path.startsWith('/')) return { state: 'none' };
  const visible = `/proc/${pid}/root${mapping.path}`;
  if (!mapping.deleted && isSameFile(visible, mapping))
    return { state: 'same', path: visible, buildId: buildIdOf(visible) };
  const direct = `/proc/${pid}/map_files/${mapping.start.toString(16)}-${mapping.end.toString(16)}`;
  const path = [direct, `/proc/${pid}/exe`].find((candidate) => isSameFile(candidate, mapping));
  return {
    state: mapping.deleted ? 'deleted' : 'replaced',
    path,
    buildId: path === undefined ? undefined : buildIdOf(path),
  };
}

/** By inode: the device number of /proc/pid/maps is not that of stat() on btrfs and overlay file systems. */
function isSameFile(path: string, mapping: Mapping): boolean {
  try {
    return statSync(path, { bigint: true }).ino === mapping.inode;
  } catch {
    return false;
  }
}

const NT_GNU_BUILD_ID = 3;
const PT_NOTE = 4;

/** The GNU build-id in an ELF file's notes, in hex; undefined when there is none or the file is no 64-bit ELF file. */
export function buildIdOf(path: string): string | undefined {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return undefined;
  }
  try {
    const size = fstatSync(file).size;
    const read = (offset: number, length: number) => {
      const bytes = Buffer.alloc(Math.max(0, Math.min(length, size - offset)));
      return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, offset));
    };
    const header = read(0, 64);
    if (header.length < 64 || header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2) return undefined;
    const entrySize = header.readUInt16LE(54);
    const segments = read(Number(header.readBigUInt64LE(32)), entrySize * header.readUInt16LE(56));
    for (let at = 0; at + 56 <= segments.length; at += entrySize) {
      if (segments.readUInt32LE(at) !== PT_NOTE) continue;
      const notes = read(
        Number(segments.readBigUInt64LE(at + 8)),
        Math.min(Number(segments.readBigUInt64LE(at + 32)), 65536),
      );
      const id = buildIdInNotes(notes, segments.readBigUInt64LE(at + 48) === 8n ? 8 : 4);
      if (id !== undefined) return id;
    }
    return undefined;
  } finally {
    closeSync(file);
  }
}

function buildIdInNotes(notes: Buffer, alignment: number): string | undefined {
  const align = (value: number) => Math.ceil(value / alignment) * alignment;
  for (let at = 0; at + 12 <= notes.length; ) {
    const nameSize = notes.readUInt32LE(at);
    const size = notes.readUInt32LE(at + 4);
    const contents = align(at + 12 + nameSize);
    if (notes.readUInt32LE(at + 8) === NT_GNU_BUILD_ID && notes.toString('latin1', at + 12, at + 15) === 'GNU') {
      return notes.subarray(contents, contents + size).toString('hex');
    }
    at = align(contents + size);
  }
  return undefined;
}
