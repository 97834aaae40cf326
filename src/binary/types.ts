// The types of a program: what DWARF says of them, as plain values whose parts are read when they are looked at.

import { FastprobeError } from '../errors.js';
import { spellingsOf } from './base-names.js';
import { at, tag } from './constants.js';
import { type DebugInfo, debugInfoMissing } from './debug-info.js';
import type { Die } from './die.js';
import type { NameIndex } from './names.js';
import { didYouMean } from './suggestions.js';
import { readType, type TypeSource } from './type-entries.js';
import type { Unit } from './units.js';

export type Encoding =
  | 'signed'
  | 'unsigned'
  | 'signed-char'
  | 'unsigned-char'
  | 'boolean'
  | 'float'
  | 'complex'
  | 'address'
  | 'utf'
  | 'other';

export interface BaseType {
  readonly kind: 'base';
  readonly name: string;
  readonly size: number;
  readonly encoding: Encoding;
}

export interface PointerType {
  readonly kind: 'pointer' | 'reference' | 'rvalue-reference';
  readonly size: number;
  readonly target: Type;
}

export interface Member {
  /** Undefined for an anonymous struct or union: its members are seen as members of the outer one. */
  readonly name: string | undefined;
  readonly type: Type;
  /** In bytes from the beginning of the whole; for a bit-field, of the byte with its lowest bit. */
  readonly offset: number;
  /** For a bit-field: its lowest bit counted from the beginning of the whole, and how many bits. */
  readonly bits: { readonly offset: number; readonly size: number } | undefined;
}

export interface BaseClass {
  readonly type: Type;
  /** Undefined for a virtual base: its place is known only at run time. */
  readonly offset: number | undefined;
}

export interface CompoundType {
  readonly kind: 'struct' | 'union' | 'class';
  readonly name: string | undefined;
  readonly size: number;
  /** False if only declared, and no unit of the file defines it or several do differently: its members are not known. */
  readonly isComplete: boolean;
  readonly members: readonly Member[];
  readonly bases: readonly BaseClass[];
}

export interface ArrayType {
  readonly kind: 'array';
  /** Of an array of arrays this is an array. */
  readonly element: Type;
  /** Undefined if not known when compiled (`int a[]`, `int a[n]`). */
  readonly count: number | undefined;
  readonly size: number | undefined;
}

export interface EnumType {
  readonly kind: 'enum';
  readonly name: string | undefined;
  readonly size: number;
  readonly isSigned: boolean;
  readonly enumerators: readonly { readonly name: string; readonly value: bigint }[];
}

export interface TypedefType {
  readonly kind: 'typedef';
  readonly name: string;
  readonly target: Type;
}

export interface QualifiedType {
  readonly kind: 'const' | 'volatile' | 'restrict' | 'atomic';
  readonly target: Type;
}

export interface FunctionType {
  readonly kind: 'function';
  readonly returns: Type;
  readonly parameters: readonly Type[];
  readonly isVariadic: boolean;
}

export interface VoidType {
  readonly kind: 'void';
}

export interface UnsupportedType {
  readonly kind: 'unsupported';
  readonly reason: string;
}

/** A type. Parts that lead to other types are read when looked at, so a list node may contain a pointer to itself. */
export type Type =
  | BaseType
  | PointerType
  | CompoundType
  | ArrayType
  | EnumType
  | TypedefType
  | QualifiedType
  | FunctionType
  | VoidType
  | UnsupportedType;

/** Gives the types of a file. An entry gives the same value each time, so types can be compared by identity. */
export class Types implements TypeSource {
  readonly info: DebugInfo;
  private readonly names: () => NameIndex;
  private readonly known = new Map<number, Type>();

  /** `names` is called only when a definition must be looked for in other units. */
  constructor(info: DebugInfo, names: () => NameIndex) {
    this.info = info;
    this.names = names;
  }

  at(offset: number): Type {
    let type = this.known.get(offset);
    if (type === undefined) {
      type = readType(this, this.info.dieAt(offset));
      this.known.set(offset, type);
    }
    return type;
  }

  /** The entry that defines what `declaration` only declares; undefined if none does or several that differ do. */
  definitionOf(declaration: Die, name: string): number | undefined {
    const { prefixes, types } = this.names();
    const prefix = prefixes.get(declaration.offset);
    const isWanted = hasTagOf(declaration.tag);
    const facts = new Set<string>();
    let found: number | undefined;
    for (const offset of types.get(name) ?? []) {
      const die = this.info.dieAt(offset);
      if (!isWanted(die.tag) || prefixes.get(offset) !== prefix) continue;
      found ??= offset;
      // Each unit that includes a header has its own copy of the definition; two files may use one name for two things.
      const { file, line } = this.info.declarationOf(die);
      facts.add(`${die.unsigned(at.byteSize)} ${line} ${file?.slice(file.lastIndexOf('/') + 1)}`);
    }
    return facts.size === 1 ? found : undefined;
  }

  /** The type of a name as C spells it, with or without `struct`; one of the unit `near` is meant first. */
  named(name: string, near: Unit | undefined): Type {
    if (this.info.isEmpty) throw debugInfoMissing(this.info.fileName, 'its types are not known');
    const [, word, plain = ''] = /^(?:(struct|union|enum|class)\s+)?(.*)$/.exec(name.trim()) ?? [];
    const isWanted = word === undefined ? () => true : hasTagOf(tagOfWord[word] ?? 0);
    const { types } = this.names();
    const spelled = word === undefined ? spellingsOf(plain) : [plain];
    const found = spelled
      .flatMap((each) => types.get(each) ?? [])
      .filter((offset) => isWanted(this.info.dieAt(offset).tag));
    const offset = found.find((each) => near !== undefined && this.info.unitOf(each) === near) ?? found[0];
    if (offset !== undefined) return this.at(offset);
    throw new FastprobeError('FASTPROBE_TYPE_UNKNOWN', `${this.info.fileName} has no type '${name}'`, {
      hint: didYouMean(plain, types.keys(), 'a type that no variable uses is not recorded'),
    });
  }
}

const tagOfWord: Readonly<Record<string, number>> = {
  struct: tag.structureType,
  class: tag.structureType,
  union: tag.unionType,
  enum: tag.enumerationType,
};

/** Struct and class are two words for one thing. */
function hasTagOf(wanted: number): (candidate: number) => boolean {
  const asStruct = (each: number) => (each === tag.classType ? tag.structureType : each);
  return (candidate) => asStruct(candidate) === asStruct(wanted);
}
