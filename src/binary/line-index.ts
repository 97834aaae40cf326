// A line table put in order for questions: rows sorted by address, without those that mark no instruction.

import type { LineTable } from './debug-info.js';
import { rowFlag } from './line-program.js';
import { tombstone } from './reader.js';

/** Rows by address; a row holds up to the next one's address. Line 0 ends a sequence: nothing is known from there on. */
export interface LineIndex {
  readonly table: LineTable;
  readonly count: number;
  readonly addresses: Float64Array;
  readonly files: Uint32Array;
  readonly lines: Uint32Array;
  readonly flags: Uint8Array;
}

/**
 * Orders the rows of a table as debuggers do: a row that another file's row replaces at the same address is dropped, as is
 * a row that only tells a path through the same line apart (a discriminator), and line 0 (code without a line).
 */
export function indexLines(table: LineTable): LineIndex {
  const { rows } = table;
  const kept = new Uint32Array(rows.count);
  const sequences: { start: number; first: number; end: number }[] = [];
  const sameFile = samePaths(table.files);
  let count = 0;
  let first = 0;
  let lastFile = -1;
  let lastLine = 0;
  let lastAddress = -1;
  let statementHere = false;
  let discriminated = false;
  for (let row = 0; row < rows.count; row++) {
    const address = rows.addresses[row] as number;
    const line = rows.lines[row] as number;
    const flags = rows.flags[row] as number;
    const index = rows.files[row] as number;
    const file = sameFile[index] ?? index;
    const isEnd = (flags & rowFlag.endSequence) !== 0;
    const isStatement = (flags & rowFlag.statement) !== 0;
    const isMarked = (flags & rowFlag.discriminated) !== 0;
    const fileChanged = file !== lastFile;
    discriminated = line === lastLine ? discriminated || isMarked : isMarked;
    const isIdle = fileChanged && lastAddress === address && !isStatement && statementHere;
    const isIgnored = !isEnd && (isIdle || line === 0);
    if (isEnd || (fileChanged && !isIgnored)) {
      while (count > first && isAt(kept[count - 1] as number, address, lastFile)) count--;
    }
    if (!isEnd && !isIgnored) {
      if (fileChanged || line !== lastLine || !discriminated) kept[count++] = row;
      lastFile = file;
      lastLine = line;
    }
    if (lastAddress !== address) statementHere = false;
    lastAddress = address;
    statementHere ||= isStatement;
    if (isEnd) {
      kept[count++] = row;
      const start = rows.addresses[kept[first] as number] as number;
      // Linkers leave 0 or the largest address for code that they threw away.
      if (count - first > 1 && start > 1 && start < tombstone) sequences.push({ start, first, end: count });
      else count = first;
      first = count;
      lastFile = -1;
      lastLine = 0;
      lastAddress = -1;
      discriminated = false;
    }
  }
  function isAt(row: number, address: number, file: number): boolean {
    const index = rows.files[row] as number;
    return rows.addresses[row] === address && (sameFile[index] ?? index) === file;
  }
  sequences.sort((a, b) => a.start - b.start);
  const order = new Uint32Array(first);
  let filled = 0;
  for (const sequence of sequences) {
    order.set(kept.subarray(sequence.first, sequence.end), filled);
    filled += sequence.end - sequence.first;
  }
  const sorted = order.subarray(0, filled);
  return {
    table,
    count: filled,
    addresses: Float64Array.from(sorted, (row) => rows.addresses[row] as number),
    files: Uint32Array.from(sorted, (row) => rows.files[row] as number),
    lines: Uint32Array.from(sorted, (row) =>
      (rows.flags[row] as number) & rowFlag.endSequence ? 0 : (rows.lines[row] as number),
    ),
    flags: Uint8Array.from(sorted, (row) => rows.flags[row] as number),
  };
}

/** For each file the first index with the same path: DWARF 5 lists the unit's own file twice. */
function samePaths(files: readonly string[]): number[] {
  const firstOf = new Map<string, number>();
  return files.map((path, index) => {
    const known = firstOf.get(path);
    if (known === undefined) firstOf.set(path, index);
    return known ?? index;
  });
}

/** The last row at or below `address`, or -1 when no row covers it. */
export function rowAt(index: LineIndex, address: number): number {
  let low = 0;
  let high = index.count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((index.addresses[middle] as number) <= address) low = middle + 1;
    else high = middle;
  }
  let row = low - 1;
  if (row < 0 || index.lines[row] === 0) return -1;
  // Of several rows at one address the last that begins a statement speaks.
  for (let before = row; before >= 0 && index.addresses[before] === index.addresses[row]; before--) {
    if (index.files[before] !== index.files[row] || index.lines[before] === 0) break;
    if ((index.flags[before] as number) & rowFlag.statement) {
      row = before;
      break;
    }
  }
  return row;
}
