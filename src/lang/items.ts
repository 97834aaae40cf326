// Operands while they are checked: a C type, and a place or a value that is worked out only if it is asked for.

import { sizeOf, strip, typeText } from '../binary/type-text.js';
import type { CompoundType, Member, Type } from '../binary/types.js';
import type { Variable } from '../binary/variables.js';
import type { FastprobeError } from '../errors.js';
import { type Integer, integerOf, isFloat, kindOf, pointerTo, targetOf } from './c-types.js';
import type { Complaints } from './complaint.js';
import { addressOf, arithmetic, constant, convert, moved, pointedTo } from './fold.js';
import { type Computed, locate } from './locate.js';
import { noFloats } from './tokens.js';
import type { Span } from './tree.js';
import { int32, int64, type Kind, type Place, pointerKind, type Value } from './value.js';

/** A part of an expression. `sizeof x` and `&x` never ask for x's value, so it may be optimised out there. */
export interface Item {
  readonly type: Type;
  readonly span: Span;
  /** Where it is; undefined for what was computed. */
  readonly place?: () => Place | Computed;
  /** For a bit-field: its bits counted from its place, and how many bytes from there belong to the whole. */
  readonly bits?: { readonly offset: number; readonly size: number; readonly room: number };
  /** The value, held as its type says; of an array, the address. */
  readonly value: () => Value;
}

/** Makes items, with the errors of one expression. */
export class Items {
  readonly complaints: Complaints;

  constructor(complaints: Complaints) {
    this.complaints = complaints;
  }

  number(type: Type, value: bigint, span: Span): Item {
    return { type, span, value: () => constant(value, kindOf(type) ?? int64, span) };
  }

  variable(variable: Variable, span: Span): Item {
    return this.dereferenced(this.at(variable.type, span, () => locate(variable, span, this.complaints)));
  }

  /** Something of a type at a place. */
  at(type: Type, span: Span, place: () => Place | Computed, bits?: Item['bits']): Item {
    const item = { type, span, place, value: () => this.load(type, place(), span, bits) };
    return bits === undefined ? item : { ...item, bits };
  }

  /** A C++ reference stands for what it refers to. */
  private dereferenced(item: Item): Item {
    const inner = strip(item.type);
    if (inner.kind !== 'reference' && inner.kind !== 'rvalue-reference') return item;
    const { place, span } = item;
    if (place === undefined) return item;
    return this.at(inner.target, span, () => pointedTo(loaded(place(), pointerKind, span)));
  }

  pointedTo(pointer: Item, span: Span): Item {
    const type = targetOf(pointer.type) ?? pointer.type;
    return this.at(type, span, () => pointedTo(pointer.value()));
  }

  addressOf(item: Item, span: Span): Item {
    const { place, bits } = item;
    const what = this.complaints.at(item.span);
    if (place === undefined) {
      throw this.complaints.type(
        span,
        `'${what}' is a computed value and has no address`,
        'take the address of a variable',
      );
    }
    if (bits !== undefined) throw this.complaints.type(span, 'a bit-field has no address', 'take that of the struct');
    const value = () => {
      const where = place();
      if (where.in === 'memory') return addressOf(where, span);
      const why = where.in === 'register' ? 'is in a register here' : 'is in no place here: its value is known instead';
      throw this.complaints.type(span, `'${what}' ${why} and has no address`, 'choose a line where it is in memory');
    };
    return { type: pointerTo(item.type), span, value };
  }

  private load(type: Type, place: Place | Computed, span: Span, bits: Item['bits']): Value {
    if (bits !== undefined) return this.bitField(type, place, span, bits);
    if (strip(type).kind === 'array') return addressOf(this.inMemory(place, span), span);
    const kind = this.kindOf(type, span);
    if (place.in === 'register' && place.offset + kind.width / 8 > 8) {
      throw this.complaints.unsupported(span, 'it is in more than one register here', 'choose another line');
    }
    return loaded(place, kind, span);
  }

  private inMemory(place: Place | Computed, span: Span) {
    if (place.in === 'memory') return place;
    throw this.complaints.unsupported(span, 'this array is not in memory here', 'choose another line');
  }

  /** How a value of the type is held, or the reason why it can't be one. */
  private kindOf(type: Type, span: Span): Kind {
    const kind = kindOf(type);
    if (kind !== undefined) return kind;
    const what = this.complaints.at(span);
    const inner = strip(type);
    if (isFloat(type)) throw this.noFloat(span, type);
    if (this.isCompound(inner)) {
      const names = inner.members.flatMap(({ name }) => name ?? []).slice(0, 8);
      const hint = names.length === 0 ? 'take its address with &' : `name one of its members: ${names.join(', ')}`;
      throw this.complaints.type(span, `'${what}' is a whole ${typeText(type)}, not a number or pointer`, hint);
    }
    const hint = inner.kind === 'void' ? 'cast the pointer first: *(int *)p' : 'use a part of it, or cast its address';
    throw this.complaints.unsupported(
      span,
      `'${what}' has the type ${typeText(type)}, which can't be a value here`,
      hint,
    );
  }

  noFloat(span: Span, type: Type): FastprobeError {
    const message = `${this.complaints.at(span)} is ${typeText(type)}: floating point can't be computed with yet`;
    return this.complaints.unsupported(span, message, noFloats);
  }

  sizeOf(type: Type, span: Span): number {
    const inner = strip(type);
    // As gcc has it, so that pointers to void can be moved.
    if (inner.kind === 'void' || inner.kind === 'function') return 1;
    const size = sizeOf(type);
    if (size !== undefined) return size;
    throw this.complaints.type(
      span,
      `the size of ${typeText(type)} is not known`,
      'its definition is not in this binary',
    );
  }

  /** The item as an integer; a bit-field promotes by its own number of bits. */
  integerOf(item: Item, operator?: string): { integer: Integer; value: () => Value } {
    const integer = integerOf(item.type);
    if (integer === undefined) {
      if (isFloat(item.type)) throw this.noFloat(item.span, item.type);
      const where = operator === undefined ? 'an integer is needed here' : `'${operator}' needs an integer here`;
      const message = `${where}, and this is ${typeText(item.type)}`;
      throw this.complaints.type(
        item.span,
        message,
        targetOf(item.type) ? 'cast it: (long)p' : 'use one of its members',
      );
    }
    if (item.bits === undefined || integer.kind.width < 32) return { integer, value: item.value };
    if (item.bits.size > 32) throw this.wideBits(item.span);
    const fitsInt = item.bits.size < 32 || integer.kind.isSigned;
    return { integer: { kind: { width: 32, isSigned: fitsInt }, isBool: false, rank: 4 }, value: item.value };
  }

  // --- members

  isCompound(type: Type): type is CompoundType {
    const inner = strip(type);
    return inner.kind === 'struct' || inner.kind === 'union' || inner.kind === 'class';
  }

  member(whole: Item, name: string, span: Span): Item {
    const inner = strip(whole.type);
    const { place } = whole;
    if (!this.isCompound(inner) || place === undefined) {
      const message = `${this.complaints.at(whole.span)} (${typeText(whole.type)}) has no members`;
      throw this.complaints.type(span, message, 'only structs and unions have');
    }
    if (!inner.isComplete) {
      const message = `the members of ${typeText(whole.type)} are not known`;
      throw this.complaints.type(span, message, 'it is only declared in this binary; cast to a struct that it has');
    }
    const found = findMember(inner, name, 0);
    if (found === undefined) {
      const names = inner.members.flatMap((each) => each.name ?? []).slice(0, 12);
      const message = `${typeText(whole.type)} has no member '${name}'`;
      throw this.complaints.type(span, message, `its members are: ${names.join(', ') || 'none'}`);
    }
    const { member, offset } = found;
    const part = () => movedPlace(place(), offset, span);
    if (member.bits === undefined) return this.dereferenced(this.at(member.type, span, part));
    const bits = { offset: member.bits.offset - member.offset * 8, size: member.bits.size, room: inner.size - offset };
    return this.at(member.type, span, part, bits);
  }

  private bitField(type: Type, place: Place | Computed, span: Span, bits: NonNullable<Item['bits']>): Value {
    const { offset, size, room } = bits;
    const declared = this.kindOf(type, span);
    if (size > 32) throw this.wideBits(span);
    // The narrowest load that covers the bits and stays inside the struct.
    const bytes = [1, 2, 4, 8].find((each) => each * 8 >= offset + size);
    if (bytes === undefined || bytes > room) {
      throw this.complaints.unsupported(
        span,
        'this bit-field crosses the end of what can be loaded at once',
        'load its bytes',
      );
    }
    const width = bytes === 8 ? 64 : 32;
    const raw = { width: (bytes * 8) as Kind['width'], isSigned: false };
    const wide = { width, isSigned: declared.isSigned } as const;
    const all = convert(loaded(place, raw, span), wide);
    const by = (count: number) => constant(BigInt(count), int32, span);
    const mask = (1n << BigInt(size)) - 1n;
    const value = declared.isSigned
      ? arithmetic(
          'shift-right',
          arithmetic('shift-left', all, by(width - offset - size), wide, span),
          by(width - size),
          wide,
          span,
        )
      : arithmetic(
          'and',
          arithmetic('shift-right', all, by(offset), wide, span),
          constant(mask, wide, span),
          wide,
          span,
        );
    return convert(value, declared);
  }

  private wideBits(span: Span): FastprobeError {
    return this.complaints.unsupported(
      span,
      'bit-fields of more than 32 bits are not known here',
      'load its bytes: *(long *)p',
    );
  }
}

function loaded(place: Place | Computed, kind: Kind, span: Span): Value {
  return place.in === 'value' ? place.read(place.offset, kind, span) : { op: 'load', place, kind, span };
}

function movedPlace(place: Place | Computed, bytes: number, span: Span): Place | Computed {
  if (place.in === 'memory') return moved(place, BigInt(bytes), true, span);
  return { ...place, offset: place.offset + bytes };
}

/** Looks into anonymous members and base classes as well. `offset` is where `type` begins in the whole. */
function findMember(
  type: CompoundType,
  name: string,
  offset: number,
): { readonly member: Member; readonly offset: number } | undefined {
  for (const member of type.members) {
    if (member.name === name) return { member, offset: offset + member.offset };
    const inner = member.name === undefined ? strip(member.type) : undefined;
    if (inner?.kind === 'struct' || inner?.kind === 'union' || inner?.kind === 'class') {
      const found = findMember(inner, name, offset + member.offset);
      if (found !== undefined) return found;
    }
  }
  for (const base of type.bases) {
    const inner = strip(base.type);
    if (base.offset === undefined || !('members' in inner)) continue;
    const found = findMember(inner, name, offset + base.offset);
    if (found !== undefined) return found;
  }
  return undefined;
}
