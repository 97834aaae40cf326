// Abbreviations: the shapes of debugging entries, compiled once so that entries can be passed over without looking inside.

import { at, fixedSize, form } from './constants.js';
import { Reader } from './reader.js';

/** The shape of an entry: its tag and which attributes follow in which form. */
export interface Abbreviation {
  readonly tag: number;
  readonly hasChildren: boolean;
  readonly names: readonly number[];
  readonly forms: readonly number[];
  /** Values of DW_FORM_implicit_const, by attribute position. */
  readonly constants: readonly (bigint | undefined)[];
  /**
   * How to pass over the attributes: n >= 0 means n bytes, n < 0 means one value of form -n. Neighbouring fixed sizes are
   * one step, so that most entries take one addition.
   */
  readonly steps: readonly number[];
  readonly hasSibling: boolean;
}

/** The abbreviations of a unit by code. Codes are nearly always 1, 2, 3, …: an array serves. */
export type AbbreviationTable = readonly (Abbreviation | undefined)[];

/** What the size of a form depends on. */
export interface UnitFormat {
  readonly offsetSize: 4 | 8;
  readonly version: number;
}

/** More codes than any compiler writes; a table of hostile codes stops here instead of filling memory. */
const largestCode = 1 << 20;

export function readAbbreviations(bytes: Uint8Array, offset: number, unit: UnitFormat): AbbreviationTable {
  const reader = new Reader(bytes, '.debug_abbrev', offset);
  const table: (Abbreviation | undefined)[] = [];
  for (;;) {
    const code = reader.uleb();
    if (code === 0) return table;
    if (code > largestCode) throw reader.fail(`abbreviation code ${code} is too large`);
    table[code] = readAbbreviation(reader, unit);
  }
}

function readAbbreviation(reader: Reader, { offsetSize, version }: UnitFormat): Abbreviation {
  const tag = reader.uleb();
  const hasChildren = reader.u8() !== 0;
  const names: number[] = [];
  const forms: number[] = [];
  const constants: (bigint | undefined)[] = [];
  const steps: number[] = [];
  let run = 0;
  for (;;) {
    const name = reader.uleb();
    const written = reader.uleb();
    if (name === 0 && written === 0) break;
    const ofForm = version === 2 && written === form.refAddr ? form.refAddrOfDwarf2 : written;
    names.push(name);
    forms.push(ofForm);
    constants.push(ofForm === form.implicitConst ? reader.slebBig() : undefined);
    const size = fixedSize(ofForm, offsetSize);
    if (size === undefined) {
      if (run > 0) steps.push(run);
      run = 0;
      steps.push(-ofForm);
    } else run += size;
  }
  if (run > 0) steps.push(run);
  return { tag, hasChildren, names, forms, constants, steps, hasSibling: names.includes(at.sibling) };
}

/** Moves past one value of a form. */
export function skipForm(reader: Reader, ofForm: number, offsetSize: 4 | 8): void {
  const size = fixedSize(ofForm, offsetSize);
  if (size !== undefined) reader.skip(size);
  else skipVariableForm(reader, ofForm, offsetSize);
}

function skipVariableForm(reader: Reader, ofForm: number, offsetSize: 4 | 8): void {
  switch (ofForm) {
    case form.block1:
      reader.skip(reader.u8());
      return;
    case form.block2:
      reader.skip(reader.u16());
      return;
    case form.block4:
      reader.skip(reader.u32());
      return;
    case form.block:
    case form.exprloc:
      reader.skip(reader.uleb());
      return;
    case form.string:
      reader.skipText();
      return;
    case form.udata:
    case form.sdata:
    case form.refUdata:
    case form.strx:
    case form.addrx:
    case form.loclistx:
    case form.rnglistx:
      reader.skipLeb();
      return;
    case form.indirect: {
      const actual = reader.uleb();
      if (actual === form.indirect || actual === form.implicitConst)
        throw reader.fail('an indirect form leads nowhere');
      skipForm(reader, actual, offsetSize);
      return;
    }
    default:
      throw reader.fail(`form 0x${ofForm.toString(16)} is unknown`);
  }
}

/** Moves past all attributes of an entry. */
export function skipAttributes(reader: Reader, abbreviation: Abbreviation, offsetSize: 4 | 8): void {
  const { steps } = abbreviation;
  for (let index = 0; index < steps.length; index++) {
    const step = steps[index] as number;
    if (step >= 0) reader.skip(step);
    else skipVariableForm(reader, -step, offsetSize);
  }
}
