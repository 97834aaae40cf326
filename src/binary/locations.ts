// Where a variable is when the target is at an address: by its expression, its location list, its constant or its symbol.

import { type Address, address } from '../address.js';
import { at } from './constants.js';
import type { DebugInfo } from './debug-info.js';
import type { Die } from './die.js';
import type { Elf } from './elf.js';
import { type ExpressionContext, littleEndian, type Place, placeOf } from './expressions.js';
import type { Frames } from './frames.js';
import type { Functions } from './functions.js';
import type { Lines } from './lines.js';
import { entryAt, type LocationEntry, locationListOf } from './location-lists.js';
import { rangesOf } from './ranges.js';
import type { Symbols } from './symbols.js';
import type { FunctionFinder } from './unit-functions.js';
import type { Unit } from './units.js';

/** Code in which a variable that is optimised out elsewhere does exist. */
export interface AvailableRange {
  readonly low: Address;
  readonly high: Address;
  readonly firstLine: number | undefined;
  readonly lastLine: number | undefined;
}

/** Where a variable is at one address; for one that can't be had there, where in its scope it can. */
export type Location =
  | Exclude<Place, { kind: 'nowhere' | 'unsupported' }>
  | { readonly kind: 'optimised-out'; readonly availableAt: readonly AvailableRange[] }
  | { readonly kind: 'unsupported'; readonly reason: string; readonly availableAt: readonly AvailableRange[] };

export interface LocationParts {
  readonly code: Elf;
  readonly info: DebugInfo;
  readonly symbols: Symbols;
  readonly finder: FunctionFinder;
  readonly lines: Lines;
  readonly functions: Functions;
  readonly frames: Frames;
}

/** Finds variables. Holds nothing but what its parts hold. */
export class Locations {
  private readonly parts: LocationParts;

  constructor(parts: LocationParts) {
    this.parts = parts;
  }

  /** The global variable that every unit means by this name; `static` ones are none. */
  externalNamed(name: string): number | undefined {
    const { functions, info } = this.parts;
    return functions.names.variables
      .get(name)
      ?.find((offset) => info.inherited(info.dieAt(offset), (die) => die.flag(at.external) || undefined));
  }

  /** A variable's name with its namespaces, as the index of names has it. */
  private qualified(die: Die, name: string): string {
    const { prefixes } = this.parts.functions.names;
    return (this.parts.info.inherited(die, (from) => prefixes.get(from.offset)) ?? '') + name;
  }

  /**
   * Where the variable of an entry is when the target is at `place`. `scope` is where its name holds, and `size` what its
   * type takes.
   */
  at(place: number, die: Die, name: string, scope: number | undefined, size: number | undefined): Location {
    return filled(this.locationOf(die, name, place, scope), size);
  }

  private locationOf(die: Die, name: string, place: number, scope: number | undefined): Location {
    const { info } = this.parts;
    const from = info.inherited(die, (each) => (each.has(at.location) || each.has(at.constValue) ? each : undefined));
    if (from === undefined)
      return die.flag(at.declaration) ? this.definedElsewhere(die, name, place) : optimisedOut([]);
    if (from.has(at.constValue)) {
      const value = from.integer(at.constValue);
      if (value !== undefined) return { kind: 'constant', value };
      const bytes = from.block(at.constValue);
      if (bytes !== undefined) return { kind: 'constant', value: littleEndian(bytes) };
      return unsupported('its constant value has an unknown form');
    }
    const expressions = locationListOf(from, at.location);
    const expression = expressions === undefined ? from.block(at.location) : entryAt(expressions, place)?.expression;
    const found = expression && placeOf(expression, this.context(from.unit, place));
    if (found !== undefined && found.kind !== 'nowhere' && found.kind !== 'unsupported') return found;
    const availableAt = this.available(expressions ?? [], from.unit, scope);
    return found?.kind === 'unsupported' ? { ...found, availableAt } : optimisedOut(availableAt);
  }

  /** An `extern` declaration: the definition in another unit, or else the symbol's address. */
  private definedElsewhere(declaration: Die, name: string, place: number): Location {
    const { info, symbols } = this.parts;
    const full = this.qualified(declaration, name);
    const definition = this.externalNamed(full);
    if (definition !== undefined && this.qualified(info.dieAt(definition), name) === full) {
      return this.locationOf(info.dieAt(definition), name, place, undefined);
    }
    const linkage = info.inherited(declaration, (from) => from.text(at.linkageName)) ?? name;
    const symbol = symbols.named(linkage).find((each) => each.binding !== 'local');
    // A thread-local symbol's value is its offset in the block.
    if (symbol?.kind === 'tls') return this.threadLocal(Number(symbol.address));
    if (symbol !== undefined) return { kind: 'address', address: symbol.address };
    return unsupported('it is declared here but defined in another library');
  }

  /**
   * Thread-local memory of a program ends at the FS base (AMD64 supplement, "TLS variant II"); a library's is found only
   * through tables of the C library.
   */
  private threadLocal(offset: number): Extract<Location, { kind: 'thread' | 'unsupported' }> {
    const { code } = this.parts;
    const block = code.threadSegment;
    if (block === undefined || !code.isProgram) return unsupported('it is a thread-local variable of a shared library');
    const alignment = Math.max(block.alignment, 1);
    return { kind: 'thread', offset: offset - Math.ceil(block.memorySize / alignment) * alignment };
  }

  private context(unit: Unit, place: number): ExpressionContext {
    const { finder, frames, info } = this.parts;
    const context: ExpressionContext = {
      unit,
      cfa: () => frames.cfaAt(place),
      threadLocal: (offset) => this.threadLocal(offset),
      frameBase: () => {
        const entry = finder.at(place);
        const die = entry && info.dieAt(entry.offset);
        const listed = die && locationListOf(die, at.frameBase);
        const base = listed === undefined ? die?.block(at.frameBase) : entryAt(listed, place)?.expression;
        if (base === undefined) return { kind: 'unsupported', reason: 'the function has no frame base' };
        // A frame base in terms of itself would never end.
        const nested = { kind: 'unsupported', reason: "the function's frame base refers to itself" } as const;
        return placeOf(base, { ...context, frameBase: () => nested });
      },
    };
    return context;
  }

  /** The parts of the scope in which the variable can be found. */
  private available(entries: readonly LocationEntry[], unit: Unit, scope: number | undefined): AvailableRange[] {
    const bounds = scope === undefined ? [] : rangesOf(this.parts.info.dieAt(scope));
    const isFound = (place: number, expression: Uint8Array) => {
      const { kind } = placeOf(expression, this.context(unit, place));
      return kind !== 'nowhere' && kind !== 'unsupported';
    };
    return entries
      .flatMap(({ low, high, expression }) =>
        bounds.map((bound) => ({ low: Math.max(low, bound.low), high: Math.min(high, bound.high), expression })),
      )
      .filter(({ low, high, expression }) => low < high && isFound(low, expression))
      .map(({ low, high }) => ({
        low: address(low),
        high: address(high),
        ...this.parts.lines.linesBetween(low, high),
      }));
  }
}

function unsupported(reason: string): Extract<Location, { kind: 'unsupported' }> {
  return { kind: 'unsupported', reason, availableAt: [] };
}

function optimisedOut(availableAt: readonly AvailableRange[]): Location {
  return { kind: 'optimised-out', availableAt };
}

/** Pieces may end before the variable does: nothing is known of the rest. */
function filled(location: Location, size: number | undefined): Location {
  if (location.kind !== 'pieces' || size === undefined) return location;
  const rest = size - location.pieces.reduce((sum, piece) => sum + piece.size, 0);
  if (rest <= 0) return location;
  return { kind: 'pieces', pieces: [...location.pieces, { size: rest, place: { kind: 'nowhere' } }] };
}
