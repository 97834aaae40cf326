// Variables in scope at an address: their types, and where each of them is when the target is just there.

import { type Address, address } from '../address.js';
import { FastprobeError } from '../errors.js';
import { at, tag } from './constants.js';
import { type DebugInfo, debugInfoMissing } from './debug-info.js';
import type { Die } from './die.js';
import { type ExpressionContext, littleEndian, type Place, placeOf } from './expressions.js';
import type { Frames } from './frames.js';
import type { Functions } from './functions.js';
import type { Lines } from './lines.js';
import { type LocationEntry, locationListOf } from './location-lists.js';
import { didYouMean } from './suggestions.js';
import type { Symbols } from './symbols.js';
import { typeOf } from './type-entries.js';
import type { Type, Types } from './types.js';
import type { FunctionFinder, Scope } from './unit-functions.js';
import type { Unit } from './units.js';

/** Code in which a variable that is optimised out elsewhere does exist. */
export interface AvailableRange {
  readonly low: Address;
  readonly high: Address;
  readonly firstLine: number | undefined;
  readonly lastLine: number | undefined;
}

/** Where a variable is at one address. */
export type Location =
  | Exclude<Place, { kind: 'nowhere' }>
  | { readonly kind: 'optimised-out'; readonly availableAt: readonly AvailableRange[] };

export interface Variable {
  readonly name: string;
  /** A `static` variable of a function is local: that is where its name holds. */
  readonly kind: 'parameter' | 'local' | 'global';
  readonly type: Type;
  readonly location: Location;
  readonly file: string | undefined;
  readonly line: number | undefined;
}

/** A variable's entry, of which the type and location are read when it is asked for. */
interface Found {
  readonly name: string;
  readonly offset: number;
  readonly kind: Variable['kind'];
}

interface Parts {
  readonly info: DebugInfo;
  readonly symbols: Symbols;
  readonly finder: FunctionFinder;
  readonly lines: Lines;
  readonly functions: Functions;
  readonly frames: Frames;
  readonly types: Types;
}

/** Answers questions about variables. Holds nothing but what its parts hold. */
export class Variables {
  private readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
  }

  /**
   * The parameters and locals visible at an address, innermost first: a name that comes again later is hidden by the first.
   * `frame` 0 is the innermost function there, inlined or not; 1 is the one it was inlined into, and so on.
   */
  localsAt(place: number, frame: number): Variable[] {
    return this.localEntries(place, frame).map((found) => this.variable(found, place));
  }

  /** The variables outside functions in the unit that has the address. */
  globalsOfUnitAt(place: number): Variable[] {
    return this.globalEntries(this.unitAt(place)).map((found) => this.variable(found, place));
  }

  /** The variable that a name means at an address: innermost local, then the unit's globals, then any global. */
  named(place: number, name: string, frame: number): Variable {
    const locals = this.localEntries(place, frame);
    const local = locals.find((found) => found.name === name);
    if (local !== undefined) return this.variable(local, place);
    const globals = this.globalEntries(this.unitAt(place));
    const global = globals.find((found) => found.name === name);
    if (global !== undefined) return this.variable(global, place);
    const elsewhere = this.parts.functions.names.variables.get(name) ?? [];
    const [only] = elsewhere;
    const offset = this.externalNamed(name) ?? (elsewhere.length === 1 ? only : undefined);
    if (offset !== undefined) return this.variable({ name, offset, kind: 'global' }, place);
    const near = [...locals, ...globals].map((found) => found.name);
    const visible = locals.length === 0 ? 'no local variables are here' : `visible here: ${list(locals)}`;
    const several = `${elsewhere.length} other source files have a static variable of this name: ask at an address in one`;
    throw new FastprobeError(
      'FASTPROBE_VARIABLE_UNKNOWN',
      `no variable '${name}' is visible at ${this.describe(place)}`,
      { hint: elsewhere.length > 1 ? several : didYouMean(name, near, visible) },
    );
  }

  /** The global variable that every unit means by this name; `static` ones are none. */
  private externalNamed(name: string): number | undefined {
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

  private describe(place: number): string {
    const line = this.parts.lines.lineAt(place);
    return line === undefined ? `0x${place.toString(16)}` : `${line.file}:${line.line}`;
  }

  private unitAt(place: number): Unit {
    const { info } = this.parts;
    if (info.isEmpty) throw debugInfoMissing(info.fileName, 'its variables are not known');
    const unit = info.unitAt(place);
    if (unit === undefined) {
      throw debugInfoMissing(info.fileName, `nothing is known of the code at 0x${place.toString(16)}`);
    }
    return unit;
  }

  private localEntries(place: number, frame: number): Found[] {
    this.unitAt(place);
    const scopes = frameScopes(this.parts.finder.scopesAt(place), frame);
    return scopes.reverse().flatMap((scope) => this.entriesOf(scope));
  }

  /** The variables of one scope, also those that the compiler left only in the abstract function. */
  private entriesOf(scope: Scope): Found[] {
    const { info } = this.parts;
    const die = info.dieAt(scope.offset);
    const found: Found[] = [];
    const completed = new Set<number>();
    this.collect(die, found, completed);
    const origin = info.referred(die, at.abstractOrigin);
    if (origin !== undefined) this.collect(origin, found, completed);
    return found;
  }

  private collect(scope: Die, found: Found[], completed: Set<number>): void {
    for (const child of scope.children()) {
      if (child.tag !== tag.variable && child.tag !== tag.formalParameter) continue;
      if (completed.has(child.offset)) continue;
      const origin = child.reference(at.abstractOrigin);
      if (origin !== undefined) completed.add(origin);
      const name = this.parts.info.nameOf(child);
      if (name === undefined) continue;
      found.push({ name, offset: child.offset, kind: child.tag === tag.variable ? 'local' : 'parameter' });
    }
  }

  private globalEntries(unit: Unit): Found[] {
    const found: Found[] = [];
    const visit = (scope: Die, depth: number) => {
      for (const child of scope.children()) {
        if (child.tag === tag.namespace && depth < 32) visit(child, depth + 1);
        if (child.tag !== tag.variable) continue;
        const name = this.parts.info.nameOf(child);
        if (name !== undefined) found.push({ name, offset: child.offset, kind: 'global' });
      }
    };
    visit(unit.rootDie(), 0);
    // A declaration and the definition that completes it are one variable: the one with a place is meant.
    const hasPlace = ({ offset }: Found) => this.parts.info.dieAt(offset).has(at.location);
    const placed = new Set(found.filter(hasPlace).map(({ name }) => name));
    return found.filter((entry) => !placed.has(entry.name) || hasPlace(entry));
  }

  private variable(found: Found, place: number): Variable {
    const { info, types } = this.parts;
    const die = info.dieAt(found.offset);
    return {
      name: found.name,
      kind: found.kind,
      type: typeOf(types, die),
      location: this.locationOf(die, found.name, place),
      ...info.declarationOf(die),
    };
  }

  private locationOf(die: Die, name: string, place: number): Location {
    const { info } = this.parts;
    const from = info.inherited(die, (each) => (each.has(at.location) || each.has(at.constValue) ? each : undefined));
    if (from === undefined)
      return die.flag(at.declaration) ? this.definedElsewhere(die, name, place) : optimisedOut([]);
    if (from.has(at.constValue)) {
      const value = from.integer(at.constValue);
      if (value !== undefined) return { kind: 'constant', value };
      const bytes = from.block(at.constValue);
      if (bytes !== undefined) return { kind: 'constant', value: littleEndian(bytes) };
      return { kind: 'unsupported', reason: 'its constant value has an unknown form' };
    }
    const expressions = locationListOf(from, at.location);
    const expression =
      expressions === undefined
        ? from.block(at.location)
        : expressions.find((entry) => place >= entry.low && place < entry.high)?.expression;
    const found = expression && placeOf(expression, this.context(from.unit, place));
    if (found === undefined || found.kind === 'nowhere') return optimisedOut(this.available(expressions ?? []));
    return found;
  }

  /** An `extern` declaration: the definition in another unit, or else the symbol's address. */
  private definedElsewhere(declaration: Die, name: string, place: number): Location {
    const { info, symbols } = this.parts;
    const full = this.qualified(declaration, name);
    const definition = this.externalNamed(full);
    if (definition !== undefined && this.qualified(info.dieAt(definition), name) === full) {
      return this.locationOf(info.dieAt(definition), name, place);
    }
    const linkage = info.inherited(declaration, (from) => from.text(at.linkageName)) ?? name;
    const symbol = symbols.named(linkage).find((each) => each.binding !== 'local');
    if (symbol?.kind === 'tls') return { kind: 'unsupported', reason: 'it is thread-local' };
    if (symbol !== undefined) return { kind: 'address', address: symbol.address };
    return { kind: 'unsupported', reason: 'it is declared here but defined in another library' };
  }

  private context(unit: Unit, place: number): ExpressionContext {
    const { finder, frames, info } = this.parts;
    const context: ExpressionContext = {
      unit,
      cfa: () => frames.cfaAt(place),
      frameBase: () => {
        const entry = finder.at(place);
        const die = entry && info.dieAt(entry.offset);
        const listed = die && locationListOf(die, at.frameBase);
        const expression = listed?.find((each) => place >= each.low && place < each.high)?.expression;
        const base = expression ?? die?.block(at.frameBase);
        if (base === undefined) return { kind: 'unsupported', reason: 'the function has no frame base' };
        // A frame base in terms of itself would never end.
        const nested = { kind: 'unsupported', reason: "the function's frame base refers to itself" } as const;
        return placeOf(base, { ...context, frameBase: () => nested });
      },
    };
    return context;
  }

  private available(entries: readonly LocationEntry[]): AvailableRange[] {
    return entries
      .filter((entry) => entry.expression.length > 0 && entry.high > entry.low && entry.low > 1)
      .map(({ low, high }) => ({
        low: address(low),
        high: address(high),
        ...this.parts.lines.linesBetween(low, high),
      }));
  }
}

function optimisedOut(availableAt: readonly AvailableRange[]): Location {
  return { kind: 'optimised-out', availableAt };
}

function list(found: readonly Found[]): string {
  return [...new Set(found.map(({ name }) => name))].slice(0, 8).join(', ');
}

/** The scopes of one function of the inline stack, outermost first: the function or inlined copy and the blocks in it. */
function frameScopes(scopes: readonly Scope[], frame: number): Scope[] {
  const starts = scopes.flatMap((scope, index) => (scope.kind === 'block' ? [] : [index]));
  const which = starts.length - 1 - frame;
  const start = starts[which];
  return start === undefined ? [] : scopes.slice(start, starts[which + 1]);
}
