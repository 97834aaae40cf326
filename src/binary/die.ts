// A cursor on debugging entries (DIEs): it moves over them and reads attributes in place, so that no entry becomes an object.

import { type Abbreviation, skipAttributes, skipForm } from './abbreviations.js';
import { at, form } from './constants.js';
import { Reader } from './reader.js';
import { inAlternateFile } from './sections.js';
import type { Unit } from './units.js';

const nothing: Abbreviation = {
  tag: 0,
  hasChildren: false,
  names: [],
  forms: [],
  constants: [],
  steps: [],
  hasSibling: false,
};

/** A position in a unit's entries. Moving it is cheap; keep `offset` to come back, not the cursor. */
export class Die {
  readonly unit: Unit;
  /** Where the entry begins in .debug_info; with it an entry is named everywhere in this layer. */
  offset: number;
  private readonly reader: Reader;
  private abbreviation: Abbreviation = nothing;
  private attributes = 0;
  /** The form of the attribute that was found last. */
  private found = 0;
  private constant: bigint | undefined;

  constructor(unit: Unit, offset: number) {
    this.unit = unit;
    this.offset = offset;
    this.reader = new Reader(unit.sections.need('.debug_info'), '.debug_info', unit.offset, unit.end);
    this.moveTo(offset);
  }

  /** 0 for the null entry that ends a list of siblings. */
  get tag(): number {
    return this.abbreviation.tag;
  }

  get hasChildren(): boolean {
    return this.abbreviation.hasChildren;
  }

  moveTo(offset: number): void {
    if (offset < this.unit.root)
      throw this.reader.fail(`entry 0x${offset.toString(16)} lies before its unit's entries`);
    this.reader.seek(offset);
    this.load();
  }

  private load(): void {
    this.offset = this.reader.position;
    const code = this.reader.uleb();
    this.attributes = this.reader.position;
    if (code === 0) {
      this.abbreviation = nothing;
      return;
    }
    const abbreviation = this.unit.abbreviations[code];
    if (abbreviation === undefined) throw this.reader.fail(`abbreviation ${code} is not defined`);
    this.abbreviation = abbreviation;
  }

  private toAttributesEnd(): void {
    this.reader.seek(this.attributes);
    skipAttributes(this.reader, this.abbreviation, this.unit.offsetSize);
  }

  /**
   * Moves to the next entry in the order they are written: first child, sibling, or the null entry that ends siblings.
   * False at the end of the unit.
   */
  next(): boolean {
    this.toAttributesEnd();
    if (this.reader.atEnd) return false;
    this.load();
    return true;
  }

  /** Moves over all children to the next sibling; false if there is none. */
  nextSibling(): boolean {
    if (this.abbreviation.hasChildren) {
      const sibling = this.abbreviation.hasSibling ? this.reference(at.sibling) : undefined;
      if (sibling !== undefined) {
        // Only forwards, or a hostile file would make us walk in circles.
        if (sibling <= this.offset || sibling >= this.unit.end)
          throw this.reader.fail('a sibling lies outside the unit');
        this.moveTo(sibling);
        return this.tag !== 0;
      }
      for (let depth = 1; depth > 0; ) {
        if (!this.next()) return false;
        if (this.tag === 0) depth--;
        else if (this.hasChildren) depth++;
      }
    }
    return this.next() && this.tag !== 0;
  }

  /** A new cursor on the first child, if there is one. */
  firstChild(): Die | undefined {
    if (!this.hasChildren) return undefined;
    this.toAttributesEnd();
    if (this.reader.atEnd) return undefined;
    const child = new Die(this.unit, this.reader.position);
    return child.tag === 0 ? undefined : child;
  }

  /** The children, as one cursor that moves. */
  *children(): Generator<Die, void, undefined> {
    const child = this.firstChild();
    if (child === undefined) return;
    do {
      const { offset } = child;
      yield child;
      if (child.offset !== offset) child.moveTo(offset);
    } while (child.nextSibling());
  }

  /** Puts the reader on the value of an attribute and returns its form, or 0 if the entry does not have it. */
  private seek(name: number): number {
    const { names, forms, constants } = this.abbreviation;
    const index = names.indexOf(name);
    if (index < 0) return 0;
    this.reader.seek(this.attributes);
    for (let before = 0; before < index; before++) skipForm(this.reader, forms[before] ?? 0, this.unit.offsetSize);
    let ofForm = forms[index] ?? 0;
    if (ofForm === form.indirect) ofForm = this.reader.uleb();
    this.found = ofForm;
    this.constant = constants[index];
    return ofForm;
  }

  has(name: number): boolean {
    return this.abbreviation.names.includes(name);
  }

  /** The form in which the entry has an attribute, or 0. */
  formOf(name: number): number {
    return this.seek(name);
  }

  flag(name: number): boolean {
    const ofForm = this.seek(name);
    return ofForm === form.flagPresent || (ofForm === form.flag && this.reader.u8() !== 0);
  }

  /** A constant, an offset into another section or an index, as a number. */
  unsigned(name: number): number | undefined {
    const ofForm = this.seek(name);
    if (ofForm === 0) return undefined;
    if (ofForm === form.sdata) return this.reader.sleb();
    if (ofForm === form.data8) return this.reader.u64Number();
    const value = this.constantValue();
    return value === undefined ? undefined : Number(value);
  }

  /** A constant with all its 64 bits. Fixed-size forms say nothing of a sign: the type does. */
  integer(name: number): bigint | undefined {
    return this.seek(name) === 0 ? undefined : this.constantValue();
  }

  private constantValue(): bigint | undefined {
    const { reader } = this;
    switch (this.found) {
      case form.data1:
        return BigInt(reader.u8());
      case form.data2:
        return BigInt(reader.u16());
      case form.data4:
        return BigInt(reader.u32());
      case form.data8:
        return reader.u64();
      case form.sdata:
        return reader.slebBig();
      case form.udata:
      case form.loclistx:
      case form.rnglistx:
        return reader.ulebBig();
      case form.implicitConst:
        return this.constant;
      case form.secOffset:
        return BigInt(reader.offset(this.unit.offsetSize));
      default:
        return undefined;
    }
  }

  address(name: number): number | undefined {
    const { reader } = this;
    switch (this.seek(name)) {
      case form.addr:
        return reader.u64Number();
      case form.addrx:
        return this.unit.indexedAddress(reader.uleb());
      case form.addrx1:
        return this.unit.indexedAddress(reader.u8());
      case form.addrx2:
        return this.unit.indexedAddress(reader.u16());
      case form.addrx3:
        return this.unit.indexedAddress(reader.u24());
      case form.addrx4:
        return this.unit.indexedAddress(reader.u32());
      default:
        return undefined;
    }
  }

  text(name: number): string | undefined {
    const ofForm = this.seek(name);
    return ofForm === 0 ? undefined : readText(this.reader, ofForm, this.unit);
  }

  /** The bytes of a block or expression. */
  block(name: number): Uint8Array | undefined {
    const { reader } = this;
    switch (this.seek(name)) {
      case form.exprloc:
      case form.block:
        return reader.chunk(reader.uleb());
      case form.block1:
        return reader.chunk(reader.u8());
      case form.block2:
        return reader.chunk(reader.u16());
      case form.block4:
        return reader.chunk(reader.u32());
      case form.data16:
        return reader.chunk(16);
      default:
        return undefined;
    }
  }

  /** The entry that an attribute refers to, as an offset into .debug_info. */
  reference(name: number): number | undefined {
    const { reader, unit } = this;
    switch (this.seek(name)) {
      case form.ref1:
        return unit.offset + reader.u8();
      case form.ref2:
        return unit.offset + reader.u16();
      case form.ref4:
        return unit.offset + reader.u32();
      case form.ref8:
        return unit.offset + reader.u64Number();
      case form.refUdata:
        return unit.offset + reader.uleb();
      case form.refAddr:
        return reader.offset(unit.offsetSize);
      case form.refAddrOfDwarf2:
        return reader.u64Number();
      case form.gnuRefAlt:
      case form.refSup4:
      case form.refSup8:
        throw inAlternateFile();
      default:
        return undefined;
    }
  }

  /** The signature of the type unit that an attribute refers to. */
  signature(name: number): bigint | undefined {
    return this.seek(name) === form.refSig8 ? this.reader.u64() : undefined;
  }
}

/** The text that a value of a string form means; `unit` gives what indexed forms need. */
export function readText(reader: Reader, ofForm: number, unit: Unit): string | undefined {
  switch (ofForm) {
    case form.string:
      return reader.text();
    case form.strp:
      return unit.sections.text('.debug_str', reader.offset(unit.offsetSize));
    case form.lineStrp:
      return unit.sections.text('.debug_line_str', reader.offset(unit.offsetSize));
    case form.strx:
      return unit.indexedText(reader.uleb());
    case form.strx1:
      return unit.indexedText(reader.u8());
    case form.strx2:
      return unit.indexedText(reader.u16());
    case form.strx3:
      return unit.indexedText(reader.u24());
    case form.strx4:
      return unit.indexedText(reader.u32());
    case form.strpSup:
    case form.gnuStrpAlt:
      throw inAlternateFile();
    default:
      return undefined;
  }
}
