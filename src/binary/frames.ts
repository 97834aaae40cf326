// Call frame information: the code an entry covers, where the canonical frame address (CFA) is at an instruction.

import { lastAtOrBelow } from './debug-info.js';
import type { Elf } from './elf.js';
import { type Common, type FrameEntry, readFrameEntries } from './frame-entries.js';
import { readLandingPads } from './landing-pads.js';
import { Reader } from './reader.js';
import { type GeneralRegister, generalRegisterOf } from './registers.js';

/** How to get the CFA, the stack pointer's value before the call that entered the function. */
export type CfaRule =
  | { readonly kind: 'register'; readonly register: GeneralRegister; readonly offset: number }
  | { readonly kind: 'unsupported'; readonly reason: string };

/** The CFA rule while instructions are carried out; `expression` once a rule was one. */
interface Row {
  register: number;
  offset: number;
  isExpression: boolean;
}

/** Finds frame information. Lists the entries when first asked; holds the list. */
export class Frames {
  private readonly code: Elf;
  private readonly debug: Elf;
  private entries: readonly FrameEntry[] | undefined;

  /** `debug` is the separate debug file, or the binary again. */
  constructor(code: Elf, debug: Elf) {
    this.code = code;
    this.debug = debug;
  }

  /** The entry whose code includes `at`. */
  entryAt(at: number): FrameEntry | undefined {
    this.entries ??= readFrameEntries(this.code, this.debug);
    const entry = this.entries[lastAtOrBelow(this.entries, at, (candidate) => candidate.low)];
    return entry !== undefined && at < entry.high ? entry : undefined;
  }

  cfaAt(at: number): CfaRule {
    const entry = this.entryAt(at);
    if (entry === undefined) {
      return { kind: 'unsupported', reason: 'the file has no frame information for this instruction' };
    }
    const row = { register: -1, offset: 0, isExpression: false };
    const { common, section } = entry;
    runInstructions(new Reader(section.bytes, section.name, common.start, common.end), common, row, 0, 1);
    runInstructions(new Reader(section.bytes, section.name, entry.start, entry.end), common, row, entry.low, at);
    if (row.isExpression) return { kind: 'unsupported', reason: 'the frame address is given by an expression' };
    const register = generalRegisterOf(row.register);
    if (register === undefined) return { kind: 'unsupported', reason: `the frame base is register ${row.register}` };
    return { kind: 'register', register, offset: row.offset };
  }

  /** Where exceptions re-enter the code around `at`; none if it handles no exceptions. */
  landingPadsAt(at: number): number[] {
    const entry = this.entryAt(at);
    return entry?.table === undefined ? [] : readLandingPads(this.code, entry.table, entry.low);
  }
}

/** Carries out instructions up to the one for `until`. Only the CFA is followed; other rules are passed over. */
function runInstructions(reader: Reader, common: Common, row: Row, from: number, until: number): void {
  let at = from;
  const remembered: Row[] = [];
  while (!reader.atEnd) {
    const byte = reader.u8();
    const high = byte & 0xc0;
    if (high === 0x40) at += (byte & 0x3f) * common.codeFactor;
    else if (high === 0x80) reader.skipLeb();
    else if (high === 0) {
      const advanced = advance(byte, reader);
      if (advanced !== undefined) at += advanced * common.codeFactor;
      else if (byte === 0x0a) remembered.push({ ...row });
      else if (byte === 0x0b) Object.assign(row, remembered.pop());
      else setRule(byte, reader, common, row);
    }
    if (at > until) return;
  }
}

function advance(opcode: number, reader: Reader): number | undefined {
  if (opcode === 0x02) return reader.u8();
  if (opcode === 0x03) return reader.u16();
  return opcode === 0x04 ? reader.u32() : undefined;
}

function setRule(opcode: number, reader: Reader, common: Common, row: Row): void {
  switch (opcode) {
    case 0x00: // nop
      return;
    case 0x0c: // def_cfa
      row.register = reader.uleb();
      row.offset = reader.uleb();
      row.isExpression = false;
      return;
    case 0x0d: // def_cfa_register
      row.register = reader.uleb();
      return;
    case 0x0e: // def_cfa_offset
      row.offset = reader.uleb();
      return;
    case 0x0f: // def_cfa_expression
      reader.skip(reader.uleb());
      row.isExpression = true;
      return;
    case 0x12: // def_cfa_sf
      row.register = reader.uleb();
      row.offset = reader.sleb() * common.dataFactor;
      row.isExpression = false;
      return;
    case 0x13: // def_cfa_offset_sf
      row.offset = reader.sleb() * common.dataFactor;
      return;
    case 0x06: // restore_extended
    case 0x07: // undefined
    case 0x08: // same_value
    case 0x2e: // GNU_args_size
      reader.skipLeb();
      return;
    case 0x05: // offset_extended
    case 0x09: // register
    case 0x11: // offset_extended_sf
    case 0x14: // val_offset
    case 0x15: // val_offset_sf
    case 0x2f: // GNU_negative_offset_extended
      reader.skipLeb();
      reader.skipLeb();
      return;
    case 0x10: // expression
    case 0x16: // val_expression
      reader.skipLeb();
      reader.skip(reader.uleb());
      return;
    default:
      throw reader.fail(`frame instruction 0x${opcode.toString(16)} is unknown`);
  }
}
