// Source lines and addresses: the sites of `file:line`, the line of an address, and where a function's body begins.

import { type Address, address } from '../address.js';
import { FastprobeError } from '../errors.js';
import { type DebugInfo, debugInfoMissing, type LineTable } from './debug-info.js';
import type { Elf } from './elf.js';
import { indexLines, type LineIndex, rowAt } from './line-index.js';
import { rowFlag } from './line-program.js';
import { covers } from './ranges.js';
import { didYouMean } from './suggestions.js';
import { type FunctionEntry, type FunctionFinder, hasOwnContent } from './unit-functions.js';

/** One address that a location resolves to. */
export interface Site {
  readonly address: Address;
  /** Undefined, with the line, for code that no source line is known of. */
  readonly file: string | undefined;
  readonly line: number | undefined;
  /** The function around it, innermost first: an inlined function before the one it was inlined into. */
  readonly functions: readonly string[];
  /** True if the line's first instruction is in a prologue and the site is the first one after it. */
  readonly isAfterPrologue: boolean;
}

/** What `file:line` came to. */
export interface LineSites {
  readonly file: string;
  readonly requestedLine: number;
  /** The line that has code: the requested one or the next one. */
  readonly line: number;
  /** True if the requested line has no code and the sites are of a later one. */
  readonly isMoved: boolean;
  readonly sites: readonly Site[];
}

export interface SourceLine {
  readonly file: string;
  readonly line: number;
}

/** Answers questions about lines. Runs a line program when first asked about its file; holds its rows. */
export class Lines {
  private readonly info: DebugInfo;
  private readonly code: Elf;
  private readonly finder: FunctionFinder;
  private readonly indexes = new Map<LineTable, LineIndex>();

  constructor(info: DebugInfo, code: Elf, finder: FunctionFinder) {
    this.info = info;
    this.code = code;
    this.finder = finder;
  }

  private indexOf(table: LineTable): LineIndex {
    let index = this.indexes.get(table);
    if (index === undefined) {
      index = indexLines(table);
      this.indexes.set(table, index);
    }
    return index;
  }

  private indexAt(at: number): LineIndex | undefined {
    const unit = this.info.unitAt(at);
    const table = unit && this.info.lineTableOf(unit);
    return table && this.indexOf(table);
  }

  /** The source line of an address; undefined for code that has none. */
  lineAt(at: number): SourceLine | undefined {
    const index = this.indexAt(at);
    if (index === undefined) return undefined;
    const row = rowAt(index, at);
    const file = row < 0 ? undefined : index.table.files[index.files[row] as number];
    return file === undefined ? undefined : { file, line: index.lines[row] as number };
  }

  /** The first and last line of the file at `low` whose code lies between two addresses. */
  linesBetween(low: number, high: number): { firstLine: number | undefined; lastLine: number | undefined } {
    const index = this.indexAt(low);
    const start = index === undefined ? -1 : rowAt(index, low);
    if (index === undefined || start < 0) return { firstLine: undefined, lastLine: undefined };
    let firstLine = index.lines[start] as number;
    let lastLine = firstLine;
    for (let row = start + 1; row < index.count && (index.addresses[row] as number) < high; row++) {
      const line = index.lines[row] as number;
      if (line === 0 || index.files[row] !== index.files[start]) continue;
      firstLine = Math.min(firstLine, line);
      lastLine = Math.max(lastLine, line);
    }
    return { firstLine, lastLine };
  }

  /** Every source file that has code, with the tables that name it. */
  private filesEndingIn(wanted: string): Map<string, LineTable[]> {
    const found = new Map<string, LineTable[]>();
    const suffix = wanted.startsWith('/') ? wanted : `/${wanted.replace(/^(\.\/)+/, '')}`;
    for (const table of this.info.lineTables()) {
      for (const path of new Set(table.files)) {
        if (path !== wanted && !path.endsWith(suffix) && `/${path}` !== suffix) continue;
        if (!this.hasRows(table, path)) continue;
        const tables = found.get(path);
        if (tables === undefined) found.set(path, [table]);
        else tables.push(table);
      }
    }
    return found;
  }

  private hasRows(table: LineTable, path: string): boolean {
    const index = this.indexOf(table);
    return index.files.some((file, row) => index.lines[row] !== 0 && table.files[file] === path);
  }

  /**
   * The sites of a source line, as a debugger would break there: for each block and each inlined copy of a function the
   * first instruction that begins a statement of the line.
   */
  sitesOfLine(wanted: string, requestedLine: number): LineSites {
    if (this.info.isEmpty) throw debugInfoMissing(this.info.fileName, `no line of ${wanted} can be found`);
    const { file, tables } = this.fileNamed(wanted);
    const indexes = tables.map((table) => this.indexOf(table));
    const line = Math.min(...indexes.map((index) => nextLine(index, file, requestedLine)));
    if (line === Number.POSITIVE_INFINITY) {
      const last = Math.max(...indexes.map((index) => lastLine(index, file)));
      throw new FastprobeError(
        'FASTPROBE_LINE_WITHOUT_CODE',
        `${file}:${requestedLine} has no code, nor do later lines`,
        {
          hint: `the last line of this file with code is ${last}; the source may have changed since it was compiled`,
        },
      );
    }
    const sites = new Map<Address, Site>();
    const blocks = new Set<number>();
    for (const at of indexes.flatMap((index) => addressesOf(index, file, line))) {
      const block = this.blockAt(at);
      if (block !== undefined && blocks.has(block)) continue;
      if (block !== undefined) blocks.add(block);
      const site = this.siteAt(at, file, line);
      if (!sites.has(site.address)) sites.set(site.address, site);
    }
    const sorted = [...sites.values()].sort((a, b) => (a.address < b.address ? -1 : 1));
    return { file, requestedLine, line, isMoved: line !== requestedLine, sites: sorted };
  }

  private fileNamed(wanted: string): { file: string; tables: LineTable[] } {
    const matches = this.filesEndingIn(wanted);
    const exact = matches.get(wanted);
    if (exact !== undefined) return { file: wanted, tables: exact };
    const [first, ...others] = matches;
    if (first === undefined) {
      const files = new Set(this.info.lineTables().flatMap((table) => table.files));
      const names = [...files].map((path) => path.slice(path.lastIndexOf('/') + 1));
      const base = wanted.slice(wanted.lastIndexOf('/') + 1);
      const sameName = [...files].find((path) => path.endsWith(`/${base}`));
      throw new FastprobeError('FASTPROBE_FILE_UNKNOWN', `${this.info.fileName} has no code from ${wanted}`, {
        hint:
          sameName !== undefined && base !== wanted
            ? `did you mean '${sameName}'?`
            : didYouMean(base, names, 'give the end of the path as it was compiled, such as src/queue.c'),
      });
    }
    if (others.length > 0) {
      const paths = [...matches.keys()].sort();
      throw new FastprobeError('FASTPROBE_FILE_AMBIGUOUS', `${wanted} may be ${paths.join(' or ')}`, {
        hint: 'give more of the path, enough to tell them apart',
      });
    }
    return { file: first[0], tables: first[1] };
  }

  /** The innermost block around an address that has something of its own, by its entry. */
  private blockAt(at: number): number | undefined {
    const scopes = this.finder.scopesAt(at);
    for (const scope of scopes.reverse()) {
      if (scope.kind !== 'block' || hasOwnContent(this.info.dieAt(scope.offset))) return scope.offset;
    }
    return undefined;
  }

  /** The site at exactly this address, whatever line it is of. */
  siteAtPlace(at: number): Site {
    const { file, line } = this.lineAt(at) ?? { file: undefined, line: undefined };
    const entry = this.finder.at(at);
    const isAfterPrologue = entry !== undefined && at !== entry.entry && at === this.bodyStart(entry);
    return { address: address(at), file, line, functions: this.functionsAt(at), isAfterPrologue };
  }

  /** The site for the instruction at `at`, or after the prologue if that is where it is. */
  private siteAt(at: number, file: string, line: number): Site {
    const entry = this.finder.at(at);
    const body = entry === undefined ? at : this.bodyStart(entry);
    const isInPrologue = entry !== undefined && at >= entry.entry && at < body;
    const place = isInPrologue ? body : at;
    return { address: address(place), file, line, functions: this.functionsAt(place), isAfterPrologue: isInPrologue };
  }

  private functionsAt(at: number): string[] {
    return this.finder
      .scopesAt(at)
      .filter((scope) => scope.kind !== 'block')
      .map((scope) => this.info.nameOf(this.info.dieAt(scope.offset)) ?? '')
      .reverse();
  }

  /**
   * Where a function's body begins, as gdb finds it. A compiler that marks the place is believed. Code that gcc optimised
   * describes its variables from the first instruction on, so nothing is skipped. Else, if the function sets up a frame
   * pointer, the first line after that is the body.
   */
  bodyStart(entry: FunctionEntry): number {
    const index = this.indexAt(entry.entry);
    const unit = this.info.unitAt(entry.entry);
    if (index === undefined || unit === undefined) return entry.entry;
    const marked = this.markedBody(index, entry);
    if (marked !== undefined) return marked;
    if (this.finder.ofUnit(unit).hasLocationLists && unit.about.producer.startsWith('GNU ')) return entry.entry;
    const framed = this.afterFrameSetup(entry);
    if (framed === undefined) return entry.entry;
    const row = rowAt(index, framed);
    if (row < 0 || index.addresses[row] === framed) return framed;
    for (let next = row + 1; next < index.count; next++) {
      const at = index.addresses[next] as number;
      if (at > framed) return covers(entry.ranges, at) ? at : framed;
    }
    return framed;
  }

  private markedBody(index: LineIndex, entry: FunctionEntry): number | undefined {
    const hot = entry.ranges.find((range) => entry.entry >= range.low && entry.entry < range.high);
    if (hot === undefined) return undefined;
    for (let row = Math.max(rowAt(index, entry.entry), 0); row < index.count; row++) {
      const at = index.addresses[row] as number;
      if (at >= hot.high) return undefined;
      if (at >= entry.entry && (index.flags[row] as number) & rowFlag.prologueEnd) return at;
    }
    return undefined;
  }

  /** After `push %rbp; mov %rsp,%rbp`, if the function begins so. */
  private afterFrameSetup(entry: FunctionEntry): number | undefined {
    const hot = entry.ranges.find((range) => entry.entry >= range.low && entry.entry < range.high);
    if (hot === undefined) return undefined;
    const length = Math.min(12, hot.high - entry.entry);
    const hex = Buffer.from(this.code.readStatic(address(entry.entry), length)).toString('hex');
    // endbr64? push %rbp, mov %rsp,%rbp in either encoding.
    const match = /^(f30f1efa)?55(4889e5|488bec)/.exec(hex);
    return match === null ? undefined : entry.entry + match[0].length / 2;
  }
}

/** The least line of the file that is not before `wanted` and begins a statement somewhere. */
function nextLine(index: LineIndex, file: string, wanted: number): number {
  let best = Number.POSITIVE_INFINITY;
  forStatements(index, file, (_, line) => {
    if (line >= wanted && line < best) best = line;
  });
  return best;
}

function lastLine(index: LineIndex, file: string): number {
  let last = 0;
  forStatements(index, file, (_, line) => {
    if (line > last) last = line;
  });
  return last;
}

function addressesOf(index: LineIndex, file: string, wanted: number): number[] {
  const found: number[] = [];
  forStatements(index, file, (at, line) => {
    if (line === wanted) found.push(at);
  });
  return found;
}

function forStatements(index: LineIndex, file: string, visit: (at: number, line: number) => void): void {
  const isFile = index.table.files.map((path) => path === file);
  for (let row = 0; row < index.count; row++) {
    const line = index.lines[row] as number;
    if (line === 0 || !isFile[index.files[row] as number]) continue;
    if ((index.flags[row] as number) & rowFlag.statement) visit(index.addresses[row] as number, line);
  }
}
