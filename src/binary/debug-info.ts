// The debug information of one file: its units, found by address or by offset, and their line tables. Lazy throughout.

import { FastprobeError } from '../errors.js';
import { at } from './constants.js';
import { Die } from './die.js';
import type { Elf } from './elf.js';
import { type LineHeader, type LineRows, readLineHeader, runLineProgram } from './line-program.js';
import { type Range, rangesOf } from './ranges.js';
import { damaged } from './reader.js';
import { DebugSections } from './sections.js';
import { readUnits, type Unit } from './units.js';

/** A line table of which the header is read; the rows are made when first asked for. */
export class LineTable {
  readonly unit: Unit;
  readonly header: LineHeader;
  private made: LineRows | undefined;

  constructor(unit: Unit, offset: number) {
    this.unit = unit;
    this.header = readLineHeader(unit, offset);
  }

  get files(): readonly string[] {
    return this.header.files;
  }

  get rows(): LineRows {
    this.made ??= runLineProgram(this.unit, this.header);
    return this.made;
  }
}

/** Holds the units of a file and what was read of them so far. */
export class DebugInfo {
  readonly sections: DebugSections;
  readonly fileName: string;
  private list: readonly Unit[] | undefined;
  private ranges: readonly (Range & { unit: Unit })[] | undefined;
  private readonly tables = new Map<number, LineTable>();
  private typeUnits: Map<bigint, Unit> | undefined;

  constructor(elf: Elf) {
    this.sections = new DebugSections(elf);
    this.fileName = elf.name;
  }

  get isEmpty(): boolean {
    const info = this.sections.get('.debug_info');
    return info === undefined || info.length === 0;
  }

  get units(): readonly Unit[] {
    this.list ??= readUnits(this.sections);
    return this.list;
  }

  /** The unit whose code includes `address`. */
  unitAt(address: number): Unit | undefined {
    this.ranges ??= this.units
      .flatMap((unit) => rangesOf(unit.rootDie()).map((range) => ({ ...range, unit })))
      .sort((a, b) => a.low - b.low);
    const index = lastAtOrBelow(this.ranges, address, (range) => range.low);
    const range = this.ranges[index];
    return range !== undefined && address < range.high ? range.unit : undefined;
  }

  /** The unit that has the entry at `offset` of .debug_info. */
  unitOf(offset: number): Unit {
    const { units } = this;
    const unit = units[lastAtOrBelow(units, offset, (candidate) => candidate.offset)];
    if (unit === undefined || offset >= unit.end) throw damaged('.debug_info', offset, 'no unit has this entry');
    return unit;
  }

  dieAt(offset: number): Die {
    return new Die(this.unitOf(offset), offset);
  }

  /** The entry an attribute refers to, also in another unit or a type unit. */
  referred(die: Die, attribute: number): Die | undefined {
    const offset = die.reference(attribute);
    if (offset !== undefined) return this.dieAt(offset);
    const signature = die.signature(attribute);
    if (signature === undefined) return undefined;
    this.typeUnits ??= new Map(
      this.units.flatMap((unit) => (unit.signature === undefined ? [] : [[unit.signature, unit]])),
    );
    const unit = this.typeUnits.get(signature);
    return unit?.typeEntry === undefined ? undefined : new Die(unit, unit.typeEntry);
  }

  lineTableOf(unit: Unit): LineTable | undefined {
    const offset = unit.about.lineTable;
    if (offset === undefined || this.sections.get('.debug_line') === undefined) return undefined;
    let table = this.tables.get(offset);
    if (table === undefined) {
      table = new LineTable(unit, offset);
      this.tables.set(offset, table);
    }
    return table;
  }

  /** The line tables of all units; a table that units share comes once. */
  lineTables(): LineTable[] {
    return [...new Set(this.units.flatMap((unit) => this.lineTableOf(unit) ?? []))];
  }

  /**
   * An attribute's value from the entry or from the ones it completes: a concrete function leaves to its abstract one, and
   * a definition to its declaration, what is the same for both.
   */
  inherited<T>(die: Die, read: (from: Die) => T | undefined): T | undefined {
    let from: Die | undefined = die;
    // A chain has two links at most in real files; a hostile one may be a ring.
    for (let links = 0; from !== undefined && links < 8; links++) {
      const value = read(from);
      if (value !== undefined) return value;
      from = this.referred(from, at.abstractOrigin) ?? this.referred(from, at.specification);
    }
    return undefined;
  }

  nameOf(die: Die): string | undefined {
    return this.inherited(die, (from) => from.text(at.name));
  }

  /** Where an entry was written in the source. */
  declarationOf(die: Die): { file: string | undefined; line: number | undefined } {
    const file = this.inherited(die, (from) => {
      const index = from.unsigned(at.declFile);
      return index === undefined ? undefined : this.lineTableOf(from.unit)?.files[index];
    });
    return { file, line: this.inherited(die, (from) => from.unsigned(at.declLine)) };
  }
}

/** The index of the last item whose key is not above `key`; -1 if all are. */
export function lastAtOrBelow<T>(items: ArrayLike<T>, key: number, keyOf: (item: T) => number): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (keyOf(items[middle] as T) <= key) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The error for a question that only debug information answers, about a file that has none. */
export function debugInfoMissing(fileName: string, question: string): FastprobeError {
  return new FastprobeError('FASTPROBE_DEBUG_INFO_MISSING', `${fileName} has no debug information: ${question}`, {
    hint: 'compile with -g, install its debug package, or use a function name or an address as location',
  });
}
