// The functions of one unit that have code, and the blocks and inlined functions inside them around an address.

import { at, tag } from './constants.js';
import type { DebugInfo } from './debug-info.js';
import type { Die } from './die.js';
import { listFormOf } from './location-lists.js';
import { covers, type Range, rangesOf } from './ranges.js';
import { damaged } from './reader.js';
import type { Unit } from './units.js';

/** A function with code of its own, named by its entry's offset. */
export interface FunctionEntry {
  readonly offset: number;
  readonly ranges: readonly Range[];
  /** Where calls arrive. */
  readonly entry: number;
}

export interface UnitFunctions {
  readonly list: readonly FunctionEntry[];
  /**
   * True if a variable of the unit has a location list. gcc writes them when it optimises, and then variables can be found
   * from a function's first instruction on, not only after its prologue.
   */
  readonly hasLocationLists: boolean;
}

/** A function, a block in it or a function inlined there, whose code includes the address that was asked for. */
export interface Scope {
  readonly kind: 'function' | 'inlined' | 'block';
  readonly offset: number;
}

/** No compiler nests deeper; a hostile file does not get to use up the stack. */
const deepestNesting = 256;

function scanFunctions(unit: Unit): UnitFunctions {
  const list: FunctionEntry[] = [];
  let hasLocationLists = false;
  const die = unit.rootDie();
  while (die.next()) {
    if (die.tag === tag.subprogram) {
      const ranges = rangesOf(die);
      const first = ranges[0];
      if (first !== undefined) list.push({ offset: die.offset, ranges, entry: die.address(at.entryPc) ?? first.low });
    } else if (!hasLocationLists && (die.tag === tag.variable || die.tag === tag.formalParameter)) {
      hasLocationLists = listFormOf(die, at.location) !== 0;
    }
  }
  return { list, hasLocationLists };
}

/** Finds functions by address. Reads a unit's functions when first asked about it; holds them. */
export class FunctionFinder {
  private readonly info: DebugInfo;
  private readonly units = new Map<Unit, UnitFunctions>();

  constructor(info: DebugInfo) {
    this.info = info;
  }

  ofUnit(unit: Unit): UnitFunctions {
    let functions = this.units.get(unit);
    if (functions === undefined) {
      functions = scanFunctions(unit);
      this.units.set(unit, functions);
    }
    return functions;
  }

  at(address: number): FunctionEntry | undefined {
    const unit = this.info.unitAt(address);
    return unit && this.ofUnit(unit).list.find((candidate) => covers(candidate.ranges, address));
  }

  /** The function around `address`, then what encloses the address inside it, innermost last. */
  scopesAt(address: number): Scope[] {
    const entry = this.at(address);
    if (entry === undefined) return [];
    const scopes: Scope[] = [{ kind: 'function', offset: entry.offset }];
    addInnerScopes(this.info.dieAt(entry.offset), address, scopes, 0);
    return scopes;
  }
}

/** Adds the scopes inside `die` that include `address`; returns whether there were any. */
function addInnerScopes(die: Die, address: number, scopes: Scope[], depth: number): boolean {
  if (depth > deepestNesting) throw damaged('.debug_info', die.offset, 'blocks are nested too deeply');
  for (const child of die.children()) {
    if (child.tag !== tag.lexicalBlock && child.tag !== tag.inlinedSubroutine) continue;
    const ranges = rangesOf(child);
    const isBlock = child.tag === tag.lexicalBlock;
    if (covers(ranges, address)) {
      scopes.push({ kind: isBlock ? 'block' : 'inlined', offset: child.offset });
      addInnerScopes(child, address, scopes, depth + 1);
      return true;
    }
    // A block without addresses only groups what is in it.
    if (ranges.length === 0 && isBlock && addInnerScopes(child, address, scopes, depth + 1)) return true;
  }
  return false;
}

/** True for a block that has something of its own: a variable, a type, a label or an inlined function. */
export function hasOwnContent(block: Die): boolean {
  for (const child of block.children()) {
    if (
      child.tag !== tag.lexicalBlock &&
      child.tag !== tag.callSite &&
      child.tag !== tag.gnuCallSite &&
      child.tag !== tag.subprogram
    )
      return true;
  }
  return false;
}
