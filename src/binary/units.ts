// The units of .debug_info: their headers, and the bases their root entry gives for strings, addresses and lists.

import { FastprobeError } from '../errors.js';
import { type AbbreviationTable, readAbbreviations } from './abbreviations.js';
import { at } from './constants.js';
import { Die } from './die.js';
import { Reader } from './reader.js';
import type { DebugSections } from './sections.js';

const unitType = { compile: 1, type: 2, partial: 3, skeleton: 4, splitCompile: 5, splitType: 6 } as const;

const isSplit = 'split DWARF (its entries are in a .dwo or .dwp file)';

/** What a unit's root entry says about the whole unit. Offsets are into the sections named. */
export interface UnitFacts {
  readonly name: string;
  readonly directory: string;
  readonly producer: string;
  /** Into .debug_line. */
  readonly lineTable: number | undefined;
  /** What range and location lists are relative to. */
  readonly base: number;
}

/** One unit of .debug_info. Reads its abbreviations and root entry when first needed; holds them. */
export class Unit {
  readonly sections: DebugSections;
  readonly offset: number;
  readonly end: number;
  readonly version: number;
  readonly offsetSize: 4 | 8;
  readonly type: number;
  /** Where the root entry is. */
  readonly root: number;
  readonly signature: bigint | undefined;
  /** Where the entry of the type is that a type unit describes. */
  readonly typeEntry: number | undefined;
  /** Why this unit is not read; undefined for one that is. */
  readonly refusal: string | undefined;
  private readonly abbreviationOffset: number;
  private table: AbbreviationTable | undefined;
  private facts: UnitFacts | undefined;
  private bases: { strings: number; addresses: number; ranges: number; locations: number } | undefined;

  constructor(sections: DebugSections, info: Uint8Array, offset: number) {
    this.sections = sections;
    this.offset = offset;
    const reader = new Reader(info, '.debug_info', offset);
    let length = reader.u32();
    this.offsetSize = length === 0xffffffff ? 8 : 4;
    if (this.offsetSize === 8) length = reader.u64Number();
    else if (length >= 0xfffffff0) throw reader.fail('a unit has a reserved length');
    this.end = reader.position + length;
    if (this.end > info.length) throw reader.fail('a unit is longer than the section');
    this.version = reader.u16();
    this.type = unitType.compile;
    let addressSize = 8;
    let refusal: string | undefined;
    let abbreviations = 0;
    if (this.version === 5) {
      this.type = reader.u8();
      addressSize = reader.u8();
      abbreviations = reader.offset(this.offsetSize);
      if (this.type === unitType.type) {
        this.signature = reader.u64();
        this.typeEntry = offset + reader.offset(this.offsetSize);
      } else if (this.type === unitType.skeleton || this.type === unitType.splitCompile) {
        refusal = isSplit;
      } else if (this.type !== unitType.compile && this.type !== unitType.partial) {
        refusal = `unit type ${this.type}`;
      }
    } else if (this.version >= 2 && this.version <= 4) {
      abbreviations = reader.offset(this.offsetSize);
      addressSize = reader.u8();
    } else refusal = `DWARF version ${this.version}`;
    if (refusal === undefined && addressSize !== 8) refusal = `addresses of ${addressSize} bytes`;
    this.abbreviationOffset = abbreviations;
    this.root = reader.position;
    // Before DWARF 5 only the root entry tells.
    if (refusal === undefined && this.version < 5 && this.rootDie().has(at.gnuDwoName)) refusal = isSplit;
    this.refusal = refusal;
  }

  get abbreviations(): AbbreviationTable {
    if (this.table === undefined) {
      const key = `${this.abbreviationOffset}/${this.offsetSize}/${this.version}`;
      const known = this.sections.abbreviations.get(key);
      this.table = known ?? readAbbreviations(this.sections.need('.debug_abbrev'), this.abbreviationOffset, this);
      if (known === undefined) this.sections.abbreviations.set(key, this.table);
    }
    return this.table;
  }

  /** The root entry, of which a new cursor is made for each caller. */
  rootDie(): Die {
    return new Die(this, this.root);
  }

  get about(): UnitFacts {
    if (this.facts === undefined) {
      const die = this.rootDie();
      this.facts = {
        name: die.text(at.name) ?? '',
        directory: die.text(at.compDir) ?? '',
        producer: die.text(at.producer) ?? '',
        lineTable: die.unsigned(at.stmtList),
        base: die.address(at.lowPc) ?? 0,
      };
    }
    return this.facts;
  }

  private get base() {
    if (this.bases === undefined) {
      // Set before reading: the attributes that give the bases need none of them.
      const header = this.offsetSize === 4 ? 8 : 16;
      const bases = { strings: header, addresses: header, ranges: header + 4, locations: header + 4 };
      this.bases = bases;
      const die = this.rootDie();
      bases.strings = die.unsigned(at.strOffsetsBase) ?? bases.strings;
      bases.addresses = die.unsigned(at.addrBase) ?? bases.addresses;
      bases.ranges = die.unsigned(at.rnglistsBase) ?? bases.ranges;
      bases.locations = die.unsigned(at.loclistsBase) ?? bases.locations;
    }
    return this.bases;
  }

  /** The text that DW_FORM_strx `index` means. */
  indexedText(index: number): string {
    const reader = this.sections.reader('.debug_str_offsets', this.base.strings + index * this.offsetSize);
    return this.sections.text('.debug_str', reader.offset(this.offsetSize));
  }

  /** The address that DW_FORM_addrx `index` means. */
  indexedAddress(index: number): number {
    return this.sections.reader('.debug_addr', this.base.addresses + index * 8).u64Number();
  }

  /** Where the range list `index` begins in .debug_rnglists. */
  rangeListOffset(index: number): number {
    return this.listOffset('.debug_rnglists', this.base.ranges, index);
  }

  /** Where the location list `index` begins in .debug_loclists. */
  locationListOffset(index: number): number {
    return this.listOffset('.debug_loclists', this.base.locations, index);
  }

  private listOffset(section: string, base: number, index: number): number {
    return base + this.sections.reader(section, base + index * this.offsetSize).offset(this.offsetSize);
  }
}

/** Every unit of a file, by its header alone. */
export function readUnits(sections: DebugSections): Unit[] {
  const info = sections.get('.debug_info');
  const units: Unit[] = [];
  if (info === undefined) return units;
  for (let offset = 0; offset + 4 <= info.length; ) {
    const unit = new Unit(sections, info, offset);
    units.push(unit);
    offset = unit.end;
  }
  const reasons = new Set(units.flatMap((unit) => unit.refusal ?? []));
  if (units.length > 0 && units.every((unit) => unit.refusal !== undefined)) {
    const why = [...reasons].join(', ');
    throw new FastprobeError('FASTPROBE_DEBUG_INFO_UNSUPPORTED', `the debug information is ${why}`, {
      hint: 'compile with -gdwarf-5 or an older version, without -gsplit-dwarf',
    });
  }
  return units.filter((unit) => unit.refusal === undefined);
}
