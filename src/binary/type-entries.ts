// From a type's debugging entry to a Type value.

import { at, tag } from './constants.js';
import type { DebugInfo } from './debug-info.js';
import type { Die } from './die.js';
import { arraySize, sizeOf, strip } from './type-text.js';
import type { ArrayType, BaseClass, CompoundType, Encoding, EnumType, Member, Type } from './types.js';

/** What reading a type needs: other types by entry, and definitions by name. */
export interface TypeSource {
  readonly info: DebugInfo;
  at(offset: number): Type;
  definitionOf(declaration: Die, name: string): number | undefined;
}

const encodings: Readonly<Record<number, Encoding>> = {
  1: 'address',
  2: 'boolean',
  3: 'complex',
  4: 'float',
  5: 'signed',
  6: 'signed-char',
  7: 'unsigned',
  8: 'unsigned-char',
  16: 'utf',
};

/** Remembers what `make` gave, so that a part is read once and only if looked at. */
function lazily<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** The type that DW_AT_type of an entry names; void if it names none. */
export function typeOf(source: TypeSource, die: Die): Type {
  const { info } = source;
  const from = info.inherited(die, (each) => (each.has(at.type) ? each : undefined));
  if (from === undefined) return { kind: 'void' };
  const target = info.referred(from, at.type);
  if (target === undefined) return { kind: 'unsupported', reason: 'it is described in a type unit that is not read' };
  return source.at(target.offset);
}

export function readType(source: TypeSource, die: Die): Type {
  const { offset } = die;
  const target = lazily(() => typeOf(source, source.info.dieAt(offset)));
  const leading = <K extends string>(kind: K) => ({
    kind,
    get target() {
      return target();
    },
  });
  switch (die.tag) {
    case tag.baseType: {
      const encoding = encodings[die.unsigned(at.encoding) ?? 0] ?? 'other';
      return { kind: 'base', name: die.text(at.name) ?? '?', size: die.unsigned(at.byteSize) ?? 0, encoding };
    }
    case tag.unspecifiedType: // decltype(nullptr)
      return { kind: 'base', name: die.text(at.name) ?? '?', size: 8, encoding: 'address' };
    case tag.pointerType:
      return pointer('pointer', target);
    case tag.referenceType:
      return pointer('reference', target);
    case tag.rvalueReferenceType:
      return pointer('rvalue-reference', target);
    case tag.typedef:
      return {
        kind: 'typedef',
        name: die.text(at.name) ?? '?',
        get target() {
          return target();
        },
      };
    case tag.constType:
      return leading('const');
    case tag.volatileType:
      return leading('volatile');
    case tag.restrictType:
      return leading('restrict');
    case tag.atomicType:
      return leading('atomic');
    case tag.structureType:
      return compound(source, die, 'struct');
    case tag.classType:
      return compound(source, die, 'class');
    case tag.unionType:
      return compound(source, die, 'union');
    case tag.enumerationType:
      return enumeration(source, die);
    case tag.arrayType:
      return array(die, target);
    case tag.subroutineType:
      return functionType(source, offset, target);
    case tag.pointerToMember:
      return { kind: 'unsupported', reason: 'a pointer to a member' };
    default:
      return { kind: 'unsupported', reason: `DWARF tag 0x${die.tag.toString(16)}` };
  }
}

function pointer(kind: 'pointer' | 'reference' | 'rvalue-reference', target: () => Type): Type {
  return {
    kind,
    size: 8,
    get target() {
      return target();
    },
  };
}

function compound(source: TypeSource, die: Die, kind: CompoundType['kind']): CompoundType {
  const name = die.text(at.name);
  const { offset } = die;
  // A struct that is only declared here may be defined in another unit.
  const whole = lazily(() => {
    const here = source.info.dieAt(offset);
    if (!here.flag(at.declaration)) return { definition: offset, ...readMembers(source, offset) };
    const found = name === undefined ? undefined : source.definitionOf(here, name);
    if (found === undefined) return { definition: undefined, members: [], bases: [] };
    return { definition: found, ...readMembers(source, found) };
  });
  const size = lazily(() => {
    const { definition } = whole();
    return definition === undefined ? 0 : (source.info.dieAt(definition).unsigned(at.byteSize) ?? 0);
  });
  return {
    kind,
    name,
    get size() {
      return size();
    },
    get isComplete() {
      return whole().definition !== undefined;
    },
    get members() {
      return whole().members;
    },
    get bases() {
      return whole().bases;
    },
  };
}

function readMembers(source: TypeSource, offset: number): { members: Member[]; bases: BaseClass[] } {
  const members: Member[] = [];
  const bases: BaseClass[] = [];
  for (const child of source.info.dieAt(offset).children()) {
    const { offset: entry } = child;
    const type = lazily(() => typeOf(source, source.info.dieAt(entry)));
    if (child.tag === tag.inheritance) {
      bases.push({
        offset: memberOffset(child),
        get type() {
          return type();
        },
      });
    } else if (child.tag === tag.member && !child.flag(at.external)) {
      // A static member has no place in the object: DWARF 4 marks it external.
      const bits = bitField(source, child);
      members.push({
        name: child.text(at.name),
        offset: bits === undefined ? (memberOffset(child) ?? 0) : Math.floor(bits.offset / 8),
        bits,
        get type() {
          return type();
        },
      });
    }
  }
  return { members, bases };
}

/** In bytes; 0 in a union, where the attribute is left out; undefined if it must be computed at run time. */
function memberOffset(die: Die): number | undefined {
  if (!die.has(at.dataMemberLocation)) return 0;
  const value = die.unsigned(at.dataMemberLocation);
  if (value !== undefined) return value;
  const expression = die.block(at.dataMemberLocation);
  // DW_OP_plus_uconst, as older compilers write a plain offset.
  if (expression?.[0] !== 0x23) return undefined;
  return expression.slice(1).reduce((sum, byte, index) => sum + (byte & 0x7f) * 2 ** (7 * index), 0);
}

function bitField(source: TypeSource, die: Die): Member['bits'] {
  const size = die.unsigned(at.bitSize);
  if (size === undefined) return undefined;
  const start = die.unsigned(at.dataBitOffset);
  if (start !== undefined) return { offset: start, size };
  // DWARF 4 counts from the highest bit of the storage unit (section 5.5.6 of DWARF 3).
  // In a packed struct it may begin above that: a negative number, in a form without a sign.
  const fromTop = Number(BigInt.asIntN(64, die.integer(at.bitOffset) ?? 0n));
  const byteOffset = memberOffset(die) ?? 0;
  const storage = die.unsigned(at.byteSize) ?? sizeOf(typeOf(source, die)) ?? 4;
  return { offset: byteOffset * 8 + storage * 8 - fromTop - size, size };
}

function enumeration(source: TypeSource, die: Die): EnumType {
  const { offset } = die;
  const enumerators = lazily(() => {
    const list: { name: string; value: bigint }[] = [];
    for (const child of source.info.dieAt(offset).children()) {
      if (child.tag !== tag.enumerator) continue;
      list.push({ name: child.text(at.name) ?? '?', value: child.integer(at.constValue) ?? 0n });
    }
    return list;
  });
  const underlying = lazily(() => strip(typeOf(source, source.info.dieAt(offset))));
  return {
    kind: 'enum',
    name: die.text(at.name),
    size: die.unsigned(at.byteSize) ?? 4,
    get isSigned() {
      const base = underlying();
      if (base.kind === 'base') return base.encoding === 'signed' || base.encoding === 'signed-char';
      return enumerators().some(({ value }) => value < 0n);
    },
    get enumerators() {
      return enumerators();
    },
  };
}

/** An array of several dimensions is one entry with several bounds; here it is arrays in an array. */
function array(die: Die, element: () => Type): ArrayType {
  const counts: (number | undefined)[] = [];
  for (const child of die.children()) if (child.tag === tag.subrange) counts.push(countOf(child));
  const outermost = counts.shift();
  const inner = counts.reduceRight((of: () => Type, count) => lazily(() => arrayOf(count, of)), element);
  return arrayOf(outermost, inner);
}

/** How many elements a dimension has; undefined if that is not a constant. */
function countOf(subrange: Die): number | undefined {
  const count = subrange.integer(at.count);
  if (count !== undefined) return Number(count);
  const last = subrange.integer(at.upperBound);
  // An array of no elements ends at -1, also where the form has no sign.
  return last === undefined ? undefined : Number(BigInt.asIntN(64, last)) + 1;
}

function arrayOf(count: number | undefined, element: () => Type): ArrayType {
  const array: ArrayType = {
    kind: 'array',
    count,
    get element() {
      return element();
    },
    get size() {
      return arraySize(array);
    },
  };
  return array;
}
function functionType(source: TypeSource, offset: number, returns: () => Type): Type {
  const rest = lazily(() => {
    const parameters: Type[] = [];
    let isVariadic = false;
    for (const child of source.info.dieAt(offset).children()) {
      if (child.tag === tag.formalParameter) parameters.push(typeOf(source, child));
      else if (child.tag === tag.unspecifiedParameters) isVariadic = true;
    }
    return { parameters, isVariadic };
  });
  return {
    kind: 'function',
    get returns() {
      return returns();
    },
    get parameters() {
      return rest().parameters;
    },
    get isVariadic() {
      return rest().isVariadic;
    },
  };
}
