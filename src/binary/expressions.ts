// DWARF expressions: decoded, brought to a small set of operations, and recognised where they are a plain place.

import { type Address, address } from '../address.js';
import { at, tag } from './constants.js';
import { Die } from './die.js';
import type { CfaRule } from './frames.js';
import { Reader, tombstone } from './reader.js';
import { type GeneralRegister, generalRegisterOf, isGeneralRegister, type Register, registerOf } from './registers.js';
import type { Unit } from './units.js';

const plainOps: Readonly<Record<number, PlainOp>> = {
  18: 'dup',
  19: 'drop',
  20: 'over',
  22: 'swap',
  23: 'rotate',
  25: 'absolute',
  26: 'and',
  27: 'divide',
  28: 'minus',
  29: 'modulo',
  30: 'multiply',
  31: 'negate',
  32: 'not',
  33: 'or',
  34: 'plus',
  36: 'shift-left',
  37: 'shift-right',
  38: 'shift-right-signed',
  39: 'xor',
  41: 'equal',
  42: 'at-least',
  43: 'greater',
  44: 'at-most',
  45: 'less',
  46: 'unequal',
};

/** An operation that takes its operands from the stack; comparisons and division are signed. */
export type PlainOp =
  | 'dup'
  | 'drop'
  | 'over'
  | 'swap'
  | 'rotate'
  | 'absolute'
  | 'and'
  | 'divide'
  | 'minus'
  | 'modulo'
  | 'multiply'
  | 'negate'
  | 'not'
  | 'or'
  | 'plus'
  | 'shift-left'
  | 'shift-right'
  | 'shift-right-signed'
  | 'xor'
  | 'equal'
  | 'at-least'
  | 'greater'
  | 'at-most'
  | 'less'
  | 'unequal';

/** One step of a stack machine of 64-bit numbers. */
export type ExpressionOp =
  | { readonly op: 'push'; readonly value: bigint }
  /** Pushes a file address: add the load bias. */
  | { readonly op: 'push-address'; readonly address: Address }
  /** Pushes the register's value plus `offset`. */
  | { readonly op: 'register'; readonly register: GeneralRegister; readonly offset: number }
  /** Replaces an address by the `size` bytes there, extended with zeros. */
  | { readonly op: 'load'; readonly size: number }
  /** Keeps the lowest `size` bytes and extends them, with the sign or with zeros. */
  | { readonly op: 'extend'; readonly size: number; readonly isSigned: boolean }
  | { readonly op: 'pick'; readonly index: number }
  | { readonly op: PlainOp };

/** Where something is, as an expression tells it. */
export type Place =
  | { readonly kind: 'register'; readonly register: Register }
  /** In memory at the register's value plus `offset`. */
  | { readonly kind: 'frame'; readonly base: GeneralRegister; readonly offset: number }
  | { readonly kind: 'address'; readonly address: Address }
  /** In the thread's own memory: at its FS base plus `offset`, which is negative. */
  | { readonly kind: 'thread'; readonly offset: number }
  /** Nowhere, but its value is known: the variable's bytes are the lowest ones of this number, which may be negative. */
  | { readonly kind: 'constant'; readonly value: bigint }
  /** What the operations leave on the stack is the value itself, or the address where it is. */
  | { readonly kind: 'expression'; readonly ops: readonly ExpressionOp[]; readonly result: 'value' | 'address' }
  /** In parts, the lowest bytes first; together they have the variable's size. Of a part that is nowhere nothing is known. */
  | { readonly kind: 'pieces'; readonly pieces: readonly { readonly size: number; readonly place: Place }[] }
  | { readonly kind: 'nowhere' }
  | { readonly kind: 'unsupported'; readonly reason: string };

/** What an expression may refer to besides its own bytes. */
export interface ExpressionContext {
  readonly unit: Unit;
  /** The rule for the frame address at the instruction that is asked about. */
  cfa(): CfaRule;
  /** What DW_AT_frame_base of the function comes to. */
  frameBase(): Place;
  /** Where the file's thread-local memory is from `offset` on. */
  threadLocal(offset: number): Place;
}

/** What was read up to a DW_OP_piece or the end: operations, or one of the forms that are complete alone. */
interface Part {
  ops: ExpressionOp[];
  alone: Place | undefined;
  isValue: boolean;
  /** True while the last value has a type of its own: only plain numbers are computed with. */
  isTyped: boolean;
}

class Unsupported extends Error {}

/** Tells where something is, at the instruction that `context` is for. */
export function placeOf(expression: Uint8Array, context: ExpressionContext): Place {
  const reader = new Reader(expression, 'DWARF expression');
  const pieces: { size: number; place: Place }[] = [];
  let part = newPart();
  try {
    while (!reader.atEnd) {
      const opcode = reader.u8();
      if (opcode === 0x93) {
        pieces.push({ size: reader.uleb(), place: placeOfPart(part) });
        part = newPart();
      } else readOperation(opcode, reader, context, part);
    }
  } catch (error) {
    if (error instanceof Unsupported) return { kind: 'unsupported', reason: error.message };
    throw error;
  }
  return pieces.length > 0 ? { kind: 'pieces', pieces } : placeOfPart(part);
}

function newPart(): Part {
  return { ops: [], alone: undefined, isValue: false, isTyped: false };
}

function placeOfPart({ ops, alone, isValue }: Part): Place {
  if (alone !== undefined) return alone;
  const [first] = ops;
  if (first === undefined) return { kind: 'nowhere' };
  if (ops.length === 1) {
    if (isValue && first.op === 'push') return { kind: 'constant', value: first.value };
    if (!isValue && first.op === 'register') return { kind: 'frame', base: first.register, offset: first.offset };
    if (!isValue && first.op === 'push-address') return { kind: 'address', address: first.address };
  }
  return { kind: 'expression', ops, result: isValue ? 'value' : 'address' };
}

function readOperation(opcode: number, reader: Reader, context: ExpressionContext, part: Part): void {
  const { ops } = part;
  if (opcode === 0xa8 || opcode === 0xf7) {
    convert(part, reader.uleb(), context.unit);
    return;
  }
  if (part.isTyped && opcode !== 0x9f) throw new Unsupported(typed);
  const plain = plainOps[opcode];
  if (plain !== undefined) ops.push({ op: plain });
  else if (opcode >= 0x30 && opcode <= 0x4f) ops.push({ op: 'push', value: BigInt(opcode - 0x30) });
  else if (opcode >= 0x50 && opcode <= 0x6f) part.alone = inRegister(opcode - 0x50);
  else if (opcode >= 0x70 && opcode <= 0x8f) ops.push(basedOn(opcode - 0x70, reader.sleb()));
  else if (opcode >= 0x08 && opcode <= 0x11) ops.push({ op: 'push', value: readConstant(opcode, reader) });
  else readOther(opcode, reader, context, part);
}

function readOther(opcode: number, reader: Reader, context: ExpressionContext, part: Part): void {
  const { ops } = part;
  switch (opcode) {
    case 0x03: // addr
      ops.push(pushAddress(reader.u64Number()));
      return;
    case 0xa1: // addrx
    case 0xfb: // GNU_addr_index
      ops.push(pushAddress(context.unit.indexedAddress(reader.uleb())));
      return;
    case 0x06: // deref
      ops.push({ op: 'load', size: 8 });
      return;
    case 0x94: // deref_size
      ops.push({ op: 'load', size: reader.u8() });
      return;
    case 0x15: // pick
      ops.push({ op: 'pick', index: reader.u8() });
      return;
    case 0x23: // plus_uconst
      // A sum that wraps at 64 bits is how a negative offset is written here.
      addOffset(ops, BigInt.asIntN(64, reader.ulebBig()));
      return;
    case 0x90: // regx
      part.alone = inRegister(reader.uleb());
      return;
    case 0x92: // bregx
      ops.push(basedOn(reader.uleb(), reader.sleb()));
      return;
    case 0x91: // fbreg
      ops.push(onFrame(context.frameBase(), reader.sleb()));
      return;
    case 0x96: // nop
      return;
    case 0x9b: // form_tls_address
    case 0xe0: // GNU_push_tls_address
      part.alone = threadLocal(ops, context);
      return;
    case 0x9c: // call_frame_cfa
      ops.push(onCfa(context.cfa()));
      return;
    case 0x9e: // implicit_value
      part.alone = { kind: 'constant', value: littleEndian(reader.chunk(reader.uleb())) };
      return;
    case 0x9f: // stack_value
      part.isValue = true;
      return;
    default:
      throw new Unsupported(refusals[opcode] ?? `it needs the DWARF operation 0x${opcode.toString(16)}`);
  }
}

const signedEncodings: ReadonlySet<number> = new Set([5, 6]);
const unsignedEncodings: ReadonlySet<number> = new Set([1, 2, 7, 8, 16]);
const entryValue = 'it is known only as what it was when the function was entered';
const typed = 'its expression computes with typed values';
const refusals: Readonly<Record<number, string>> = {
  40: 'its expression branches', // bra
  47: 'its expression branches', // skip
  157: 'it is in parts that are not whole bytes', // bit_piece
  160: 'it is a pointer to something that was optimised away', // implicit_pointer
  163: entryValue,
  164: typed, // const_type
  165: typed, // regval_type
  166: typed, // deref_type
  169: typed, // reinterpret
  242: 'it is a pointer to something that was optimised away', // GNU_implicit_pointer
  243: entryValue, // GNU_entry_value
  244: typed, // GNU_const_type
  245: typed, // GNU_regval_type
  246: typed, // GNU_deref_type
  249: typed, // GNU_reinterpret
  250: 'it is known only from the arguments of a call', // GNU_parameter_ref
  253: 'a value of it is not known', // GNU_uninit / GNU_variable_value
};

function readConstant(opcode: number, reader: Reader): bigint {
  switch (opcode) {
    case 0x08:
      return BigInt(reader.u8());
    case 0x09:
      return BigInt(reader.s8());
    case 0x0a:
      return BigInt(reader.u16());
    case 0x0b:
      return BigInt.asIntN(16, BigInt(reader.u16()));
    case 0x0c:
      return BigInt(reader.u32());
    case 0x0d:
      return BigInt(reader.s32());
    case 0x0e:
      return reader.u64();
    case 0x0f:
      return reader.s64();
    case 0x10:
      return reader.ulebBig();
    default:
      return reader.slebBig();
  }
}

function pushAddress(at: number): ExpressionOp {
  if (at >= tombstone) throw new Unsupported('the linker removed it');
  return { op: 'push-address', address: address(at) };
}

function inRegister(number: number): Place {
  const register = registerOf(number);
  if (register === undefined) throw new Unsupported(`it is in register ${number} of DWARF`);
  return { kind: 'register', register };
}

function basedOn(number: number, offset: number): ExpressionOp {
  const register = generalRegisterOf(number);
  if (register === undefined) throw new Unsupported(`it is relative to register ${number} of DWARF`);
  return { op: 'register', register, offset };
}

function onCfa(rule: CfaRule): ExpressionOp {
  if (rule.kind === 'unsupported') throw new Unsupported(rule.reason);
  return { op: 'register', register: rule.register, offset: rule.offset };
}

function onFrame(base: Place, offset: number): ExpressionOp {
  // A frame base "in" a register means that the register has the address.
  if (base.kind === 'register' && isGeneralRegister(base.register)) {
    return { op: 'register', register: base.register, offset };
  }
  if (base.kind === 'frame') return { op: 'register', register: base.base, offset: base.offset + offset };
  throw new Unsupported(base.kind === 'unsupported' ? base.reason : "the function's frame base is too complex");
}

/** DW_OP_convert to the base type at `offset` of the unit, or back to a plain number if that is 0. */
function convert(part: Part, offset: number, unit: Unit): void {
  part.isTyped = offset !== 0;
  if (offset === 0) return;
  const type = new Die(unit, unit.offset + offset);
  const encoding = type.unsigned(at.encoding) ?? 0;
  const size = type.unsigned(at.byteSize) ?? 0;
  const isSigned = signedEncodings.has(encoding);
  if (type.tag !== tag.baseType || size < 1 || size > 8 || (!isSigned && !unsignedEncodings.has(encoding))) {
    throw new Unsupported(typed);
  }
  // A value that was narrowed before is already extended to all 64 bits as its own type says.
  if (size < 8) part.ops.push({ op: 'extend', size, isSigned });
}

function threadLocal(ops: readonly ExpressionOp[], context: ExpressionContext): Place {
  const [offset] = ops;
  if (offset?.op !== 'push' || ops.length > 1) throw new Unsupported('its place in thread-local memory is computed');
  return context.threadLocal(Number(offset.value));
}

/** Adds to what was pushed last, at once where it can be seen. */
function addOffset(ops: ExpressionOp[], amount: bigint): void {
  const last = ops.at(-1);
  if (last?.op === 'register') ops[ops.length - 1] = { ...last, offset: last.offset + Number(amount) };
  else if (last?.op === 'push-address') {
    ops[ops.length - 1] = { ...last, address: address(BigInt.asUintN(64, last.address + amount)) };
  } else ops.push({ op: 'push', value: amount }, { op: 'plus' });
}

export function littleEndian(bytes: Uint8Array): bigint {
  const hex = Buffer.from(bytes).reverse().toString('hex');
  return hex === '' ? 0n : BigInt(`0x${hex}`);
}
