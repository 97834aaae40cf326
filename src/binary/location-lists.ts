// Location lists: where a variable is, range by range (.debug_loclists of DWARF 5, .debug_loc before it).

import { form } from './constants.js';
import type { Die } from './die.js';
import { tombstone } from './reader.js';
import type { Unit } from './units.js';

/** The expression that holds from `low` up to, not including, `high`. */
export interface LocationEntry {
  readonly low: number;
  readonly high: number;
  readonly expression: Uint8Array;
}

/** The form in which an attribute refers to a list; 0 if it has none or is an expression. */
export function listFormOf(die: Die, attribute: number): number {
  const ofForm = die.formOf(attribute);
  // Before DWARF 4 an offset was written as a plain number.
  const isNumber = die.unit.version < 4 && (ofForm === form.data4 || ofForm === form.data8);
  return isNumber || ofForm === form.loclistx || ofForm === form.secOffset ? ofForm : 0;
}

/** The list an attribute refers to; undefined if the attribute is not a list. */
export function locationListOf(die: Die, attribute: number): LocationEntry[] | undefined {
  const ofForm = listFormOf(die, attribute);
  if (ofForm === 0) return undefined;
  const value = die.unsigned(attribute) ?? 0;
  if (die.unit.version < 5) return readLocations(die.unit, value);
  return readLocationList(die.unit, ofForm === form.loclistx ? die.unit.locationListOffset(value) : value);
}

/** The entry for an address; a default one, which holds everywhere, only if there is no other. */
export function entryAt(entries: readonly LocationEntry[], at: number): LocationEntry | undefined {
  const isFor = ({ low, high }: LocationEntry) => at >= low && at < high;
  return entries.find((entry) => entry.low > 0 && isFor(entry)) ?? entries.find(isFor);
}

function readLocations(unit: Unit, offset: number): LocationEntry[] {
  const reader = unit.sections.reader('.debug_loc', offset);
  const entries: LocationEntry[] = [];
  let { base } = unit.about;
  for (;;) {
    // As in .debug_ranges: offsets wrap, and -1 says that a new base follows.
    const low = reader.s64Number();
    const high = reader.s64Number();
    if (low === 0 && high === 0) return entries;
    if (low === -1) base = high;
    else entries.push({ low: base + low, high: base + high, expression: reader.chunk(reader.u16()) });
  }
}

function readLocationList(unit: Unit, offset: number): LocationEntry[] {
  const reader = unit.sections.reader('.debug_loclists', offset);
  const entries: LocationEntry[] = [];
  let { base } = unit.about;
  const add = (low: number, high: number) => {
    entries.push({ low, high, expression: reader.chunk(reader.uleb()) });
  };
  for (;;) {
    const kind = reader.u8();
    switch (kind) {
      case 0: // end_of_list
        return entries;
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
      case 5: // default_location
        add(0, tombstone);
        break;
      case 6: // base_address
        base = reader.u64Number();
        break;
      case 7: // start_end
        add(reader.u64Number(), reader.u64Number());
        break;
      case 8: {
        // start_length
        const low = reader.u64Number();
        add(low, low + reader.uleb());
        break;
      }
      case 9: // GNU_view_pair: which of several instants at one address is meant
        reader.skipLeb();
        reader.skipLeb();
        break;
      default:
        throw reader.fail(`location list entry of kind ${kind} is unknown`);
    }
  }
}
