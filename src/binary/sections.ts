// The debug sections of a file, fetched (and decompressed) when first asked for.

import { FastprobeError } from '../errors.js';
import type { AbbreviationTable } from './abbreviations.js';
import type { Elf } from './elf.js';
import { damaged, Reader, textAt } from './reader.js';

/** Gives readers on the debug sections of one file, and holds the abbreviation tables that units share. */
export class DebugSections {
  readonly abbreviations = new Map<string, AbbreviationTable>();
  private readonly elf: Elf;
  private readonly cache = new Map<string, Uint8Array | undefined>();

  constructor(elf: Elf) {
    this.elf = elf;
  }

  get(name: string): Uint8Array | undefined {
    if (!this.cache.has(name)) this.cache.set(name, this.elf.contents(name));
    return this.cache.get(name);
  }

  /** A section that something in the debug information refers to. */
  need(name: string): Uint8Array {
    const bytes = this.get(name);
    if (bytes === undefined) throw damaged(name, 0, 'is referred to, but the file has no such section');
    return bytes;
  }

  reader(name: string, offset: number): Reader {
    return new Reader(this.need(name), name, offset);
  }

  text(name: string, offset: number): string {
    return textAt(this.need(name), name, offset);
  }
}

/** The error for text or entries that dwz moved to another file. */
export function inAlternateFile(): FastprobeError {
  return new FastprobeError(
    'FASTPROBE_DEBUG_INFO_UNSUPPORTED',
    'a part of the debug information is in another file (dwz)',
    {
      hint: 'use debug information that was not shared by dwz (.gnu_debugaltlink)',
    },
  );
}
