// Which addresses an entry covers: DW_AT_low_pc/high_pc, .debug_ranges and, since DWARF 5, .debug_rnglists.

import { at, form } from './constants.js';
import type { Die } from './die.js';
import { tombstone } from './reader.js';
import type { Unit } from './units.js';

/** File addresses from `low` up to, not including, `high`. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

/** The ranges of an entry in the order written; the first is where a function begins. Empty ones are left out. */
export function rangesOf(die: Die): Range[] {
  const ofForm = die.formOf(at.ranges);
  if (ofForm !== 0) {
    const value = die.unsigned(at.ranges) ?? 0;
    if (die.unit.version < 5) return readRanges(die.unit, value);
    return readRangeList(die.unit, ofForm === form.rnglistx ? die.unit.rangeListOffset(value) : value);
  }
  const low = die.address(at.lowPc);
  if (low === undefined) return [];
  // Since DWARF 4 the end is usually a length.
  const end = die.address(at.highPc) ?? low + (die.unsigned(at.highPc) ?? 0);
  return isCode(low, end) ? [{ low, high: end }] : [];
}

/** Linkers leave 0, 1 or the largest address where they threw code away. */
function isCode(low: number, high: number): boolean {
  return low > 1 && high > low && high < tombstone;
}

function readRanges(unit: Unit, offset: number): Range[] {
  const reader = unit.sections.reader('.debug_ranges', offset);
  const ranges: Range[] = [];
  let { base } = unit.about;
  for (;;) {
    // Offsets from the base wrap at 64 bits: Go's base may lie above its code. -1 says that a new base follows.
    const low = reader.s64Number();
    const high = reader.s64Number();
    if (low === 0 && high === 0) return ranges;
    if (low === -1) base = high;
    else if (isCode(base + low, base + high)) ranges.push({ low: base + low, high: base + high });
  }
}

function readRangeList(unit: Unit, offset: number): Range[] {
  const reader = unit.sections.reader('.debug_rnglists', offset);
  const ranges: Range[] = [];
  let { base } = unit.about;
  const add = (low: number, high: number) => {
    if (isCode(low, high)) ranges.push({ low, high });
  };
  for (;;) {
    const kind = reader.u8();
    switch (kind) {
      case 0: // end_of_list
        return ranges;
      case 1: // base_addressx
        base = unit.indexedAddress(reader.uleb());
        break;
      case 2: // startx_endx
        add(unit.indexedAddress(reader.uleb()), unit.indexedAddress(reader.uleb()));
        break;
      case 3: {
        // startx_length
        const low = unit.indexedAddress(reader.uleb());
        add(low, low + reader.uleb());
        break;
      }
      case 4: // offset_pair
        add(base + reader.uleb(), base + reader.uleb());
        break;
      case 5: // base_address
        base = reader.u64Number();
        break;
      case 6: // start_end
        add(reader.u64Number(), reader.u64Number());
        break;
      case 7: {
        // start_length
        const low = reader.u64Number();
        add(low, low + reader.uleb());
        break;
      }
      default:
        throw reader.fail(`range list entry of kind ${kind} is unknown`);
    }
  }
}

export function covers(ranges: readonly Range[], at: number): boolean {
  return ranges.some((range) => at >= range.low && at < range.high);
}
