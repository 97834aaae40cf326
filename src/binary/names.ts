// The names of a file's functions, global variables and types: one pass over all entries, made when first asked for.

import { at, tag } from './constants.js';
import type { DebugInfo } from './debug-info.js';
import type { Die } from './die.js';
import type { Unit } from './units.js';

/** Entries by name. An entry is listed under its plain, qualified (`ns::f`) and linkage name. */
export interface NameIndex {
  /** Functions that are defined: with code of their own, or the abstract ones that inlined copies refer to. */
  readonly functions: ReadonlyMap<string, readonly number[]>;
  /** Inlined copies by the abstract function they are of. */
  readonly inlined: ReadonlyMap<number, readonly number[]>;
  /** Variables outside functions that have a place. */
  readonly variables: ReadonlyMap<string, readonly number[]>;
  readonly types: ReadonlyMap<string, readonly number[]>;
  /** `ns::Class::` of what is declared or defined inside namespaces and classes; nothing for what is not. */
  readonly prefixes: ReadonlyMap<number, string>;
}

class Names {
  readonly functions = new Map<string, number[]>();
  readonly inlined = new Map<number, number[]>();
  readonly variables = new Map<string, number[]>();
  readonly types = new Map<string, number[]>();
  readonly prefixes = new Map<number, string>();
}

function put<K>(map: Map<K, number[]>, key: K, offset: number): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [offset]);
  else if (list.at(-1) !== offset) list.push(offset);
}

export function indexNames(info: DebugInfo): NameIndex {
  const names = new Names();
  for (const unit of info.units) indexUnit(info, unit, names);
  return names;
}

const typeTags: ReadonlySet<number> = new Set([
  tag.baseType,
  tag.classType,
  tag.enumerationType,
  tag.structureType,
  tag.typedef,
  tag.unionType,
  tag.unspecifiedType,
]);

function indexUnit(info: DebugInfo, unit: Unit, names: Names): void {
  const die = unit.rootDie();
  // The prefix that holds at each depth; a function's inside is marked by `functionDepth`.
  const prefixes = [''];
  let depth = die.hasChildren ? 1 : 0;
  let functionDepth = Number.POSITIVE_INFINITY;
  while (die.next()) {
    if (die.tag === 0) {
      // Filling after the last entry of a unit is null entries too.
      depth = Math.max(depth - 1, 0);
      if (depth <= functionDepth) functionDepth = Number.POSITIVE_INFINITY;
      continue;
    }
    const prefix = prefixes[depth] ?? '';
    indexEntry(info, die, prefix, depth > functionDepth, names);
    if (!die.hasChildren) continue;
    let inner = prefix;
    if (die.tag === tag.subprogram) functionDepth = Math.min(functionDepth, depth);
    else if (die.tag === tag.namespace || die.tag === tag.structureType || die.tag === tag.classType) {
      const name = die.text(at.name);
      inner = name === undefined ? prefix : `${prefix}${name}::`;
    }
    depth++;
    prefixes[depth] = inner;
  }
}

function indexEntry(info: DebugInfo, die: Die, prefix: string, inFunction: boolean, names: Names): void {
  const { offset } = die;
  if (die.tag === tag.inlinedSubroutine) {
    const origin = die.reference(at.abstractOrigin);
    if (origin !== undefined) put(names.inlined, origin, offset);
  } else if (die.tag === tag.subprogram) {
    if (prefix !== '') names.prefixes.set(offset, prefix);
    if (die.flag(at.declaration)) return;
    if (die.has(at.lowPc) || die.has(at.ranges) || die.has(at.inline)) putNames(info, die, names, names.functions);
  } else if (die.tag === tag.variable) {
    if (prefix !== '' && !inFunction) names.prefixes.set(offset, prefix);
    if (!inFunction && (die.has(at.location) || die.has(at.constValue))) putNames(info, die, names, names.variables);
  } else if (typeTags.has(die.tag)) {
    const name = die.text(at.name);
    if (name === undefined) return;
    if (prefix !== '') names.prefixes.set(offset, prefix);
    if (die.flag(at.declaration)) return;
    put(names.types, name, offset);
    if (prefix !== '') put(names.types, prefix + name, offset);
  }
}

/** Lists an entry under every name that it has, its own or those of the entries it completes. */
function putNames(info: DebugInfo, die: Die, names: Names, into: Map<string, number[]>): void {
  const { offset } = die;
  const name = info.nameOf(die);
  if (name === undefined) return;
  put(into, name, offset);
  const prefix = info.inherited(die, (from) => names.prefixes.get(from.offset));
  if (prefix !== undefined) put(into, prefix + name, offset);
  const linkage = info.inherited(die, (from) => from.text(at.linkageName) ?? from.text(at.mipsLinkageName));
  if (linkage !== undefined && linkage !== name) put(into, linkage, offset);
}
