// Variables in scope at an address, and the one that a name means there.

import { FastprobeError } from '../errors.js';
import { at, tag } from './constants.js';
import { debugInfoMissing } from './debug-info.js';
import type { Die } from './die.js';
import { type Location, type LocationParts, Locations } from './locations.js';
import { didYouMean } from './suggestions.js';
import { typeOf } from './type-entries.js';
import { sizeOf } from './type-text.js';
import type { Type, Types } from './types.js';
import type { Scope } from './unit-functions.js';
import type { Unit } from './units.js';

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
  /** The function, block or inlined copy in which its name holds; undefined for a global. */
  readonly scope: number | undefined;
}

interface Parts extends LocationParts {
  readonly types: Types;
}

/** Answers questions about variables. Holds nothing but what its parts hold. */
export class Variables {
  private readonly parts: Parts;
  private readonly locations: Locations;

  constructor(parts: Parts) {
    this.parts = parts;
    this.locations = new Locations(parts);
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
    const offset = this.locations.externalNamed(name) ?? (elsewhere.length === 1 ? only : undefined);
    if (offset !== undefined) return this.variable({ name, offset, kind: 'global', scope: undefined }, place);
    const near = [...locals, ...globals].map((found) => found.name);
    const visible = locals.length === 0 ? 'no local variables are here' : `visible here: ${list(locals)}`;
    const several = `${elsewhere.length} other source files have a static variable of this name: ask at an address in one`;
    throw new FastprobeError(
      'FASTPROBE_VARIABLE_UNKNOWN',
      `no variable '${name}' is visible at ${this.describe(place)}`,
      { hint: elsewhere.length > 1 ? several : didYouMean(name, near, visible) },
    );
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
    const completed = new Set<number>();
    return scopes.reverse().flatMap((scope) => this.entriesOf(scope, completed));
  }

  /**
   * The variables of one scope, also those that the compiler left only in the abstract function. `completed` has
   * those that were met, and the abstract ones for which this scope or one in it has an entry.
   */
  private entriesOf(scope: Scope, completed: Set<number>): Found[] {
    const { info } = this.parts;
    const die = info.dieAt(scope.offset);
    const origin = info.referred(die, at.abstractOrigin);
    const own = this.collect(die, scope.offset, completed);
    return origin === undefined ? own : [...own, ...this.collect(origin, scope.offset, completed)];
  }

  private collect(from: Die, scope: number, completed: Set<number>): Found[] {
    const found: Found[] = [];
    for (const child of from.children()) {
      if (child.tag !== tag.variable && child.tag !== tag.formalParameter) continue;
      if (completed.has(child.offset)) continue;
      completed.add(child.offset);
      const origin = child.reference(at.abstractOrigin);
      if (origin !== undefined) completed.add(origin);
      const name = this.parts.info.nameOf(child);
      if (name === undefined) continue;
      found.push({ name, offset: child.offset, kind: child.tag === tag.variable ? 'local' : 'parameter', scope });
    }
    return found;
  }

  private globalEntries(unit: Unit): Found[] {
    const found: Found[] = [];
    const visit = (scope: Die, depth: number) => {
      for (const child of scope.children()) {
        if (child.tag === tag.namespace && depth < 32) visit(child, depth + 1);
        if (child.tag !== tag.variable) continue;
        const name = this.parts.info.nameOf(child);
        if (name !== undefined) found.push({ name, offset: child.offset, kind: 'global', scope: undefined });
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
    const type = typeOf(types, die);
    return {
      name: found.name,
      kind: found.kind,
      type,
      location: this.locations.at(place, die, found.name, found.scope, sizeOf(type)),
      ...info.declarationOf(die),
    };
  }
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
