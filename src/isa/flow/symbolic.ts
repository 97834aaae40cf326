// Following values along one path of instructions, just far enough to see a jump table and the bound of its index.

import iced from 'iced-x86';
import { accessOf } from '../access.js';
import type { Instruction } from '../instruction.js';
import { hasRegister, type Register } from '../registers.js';

/** The low `bits` of something unknown, extended to 64. Equal keys mean equal values on this path. */
export interface Term {
  readonly key: string;
  readonly bits: number;
  readonly signed: boolean;
}

/** What a register holds. `entry` was loaded from `table + size * term`; `target` is such an entry plus `base`. */
export type Value =
  | { readonly kind: 'constant'; readonly value: bigint }
  | { readonly kind: 'linear'; readonly offset: bigint; readonly scale: bigint; readonly term: Term }
  | {
      readonly kind: 'entry';
      readonly table: bigint;
      readonly size: 4 | 8;
      readonly term: Term;
      readonly isSigned: boolean;
    }
  | { readonly kind: 'target'; readonly table: bigint; readonly base: bigint; readonly term: Term };

/** One instruction on a path; `taken` says which way a conditional branch went. */
export interface Step {
  readonly instruction: Instruction;
  readonly taken: boolean;
}

const { Mnemonic, OpKind, Register: Iced, ConditionCode } = iced;
const decoded = new iced.Instruction();
const mask64 = (1n << 64n) - 1n;

/** Runs a path with unknown inputs. `initial` gives what is known of a register at the path's start. */
export class SymbolicPath {
  readonly #registers = new Map<Register, Value>();
  readonly #bounds = new Map<string, bigint>();
  readonly #stored = new Map<string, Value>();
  readonly #initial: (register: Register) => bigint | undefined;
  /** Counts stores: a load before and one after the same store may differ. */
  #generation = 0;
  #position = 0;
  #compared: { readonly term: Term; readonly limit: bigint } | undefined;

  constructor(initial: (register: Register) => bigint | undefined) {
    this.#initial = initial;
  }

  run(path: readonly Step[]): void {
    for (const step of path) this.#step(step);
  }

  /** The address that `jump` takes its target from, or the target itself. */
  targetOf(jump: Instruction): Value | undefined {
    decodeInto(jump);
    if (decoded.op0Kind === OpKind.Memory) return this.#load(8, false);
    const register = wholeRegister(decoded.op0Register);
    return register === undefined ? undefined : this.#get(register);
  }

  /** The largest value of a term that a comparison on this path allows. */
  boundOf({ key, bits, signed }: Term): bigint | undefined {
    const bound = this.#bounds.get(`${key}&${bits}`);
    // Sign extension equals zero extension as long as the sign is known to be clear.
    return bound === undefined || (signed && bound >= 1n << BigInt(bits - 1)) ? undefined : bound;
  }

  #step({ instruction, taken }: Step): void {
    this.#position++;
    if (instruction.flow === 'conditional-jump') {
      this.#branch(instruction, taken);
      return;
    }
    const access = accessOf(instruction);
    decodeInto(instruction);
    const result = instruction.flow === 'next' ? this.#resultOf() : undefined;
    const comparison = this.#comparison();
    const kept = this.#storedValue();
    if (access.memory.some(({ written }) => written)) {
      this.#generation++;
      this.#stored.clear();
      if (kept !== undefined) this.#stored.set(this.#memoryKey(kept.size), kept.value);
    }
    const narrow = decoded.opCount > 0 && decoded.op0Kind === OpKind.Register && widthOf(decoded.op0Register) === 32;
    const cleared = narrow ? wholeRegister(decoded.op0Register) : undefined;
    for (const register of allOf(access.changes)) {
      // A 32-bit result has a clear upper half; but a conditional move may leave the old value.
      const bits = register === cleared && hasRegister(access.writes, register) ? 32 : 64;
      this.#registers.set(register, this.#fresh(`r${register}`, bits));
    }
    if (result !== undefined) this.#registers.set(result.register, result.value);
    if (access.flagsChanged !== 0) this.#compared = comparison;
  }

  /** A branch that goes one way tells something about what was compared before it. */
  #branch(instruction: Instruction, taken: boolean): void {
    if (this.#compared === undefined) return;
    const { term, limit } = this.#compared;
    decodeInto(instruction);
    const condition = decoded.conditionCode;
    let bound: bigint | undefined;
    if ((condition === ConditionCode.a && !taken) || (condition === ConditionCode.be && taken)) bound = limit;
    if ((condition === ConditionCode.ae && !taken) || (condition === ConditionCode.b && taken)) bound = limit - 1n;
    if (bound === undefined || bound < 0n) return;
    const key = `${term.key}&${term.bits}`;
    const known = this.#bounds.get(key);
    if (known === undefined || bound < known) this.#bounds.set(key, bound);
  }

  /** What the decoded instruction leaves in its first operand, where that can be said. */
  #resultOf(): { register: Register; value: Value } | undefined {
    const { mnemonic } = decoded;
    if (mnemonic === Mnemonic.Cdqe) return { register: 0, value: this.#signExtend(this.#get(0)) };
    if (decoded.opCount < 2 || decoded.op0Kind !== OpKind.Register) return undefined;
    const register = wholeRegister(decoded.op0Register);
    const width = widthOf(decoded.op0Register);
    if (register === undefined || width < 32) return undefined;
    const value = this.#valueFor(mnemonic, register, width);
    return value === undefined ? undefined : { register, value: width === 32 ? this.#low(value, 32) : value };
  }

  #valueFor(mnemonic: iced.Mnemonic, register: Register, width: number): Value | undefined {
    switch (mnemonic) {
      case Mnemonic.Mov:
        return this.#source(1, width);
      case Mnemonic.Movzx:
        return this.#source(1, decoded.op1Kind === OpKind.Memory ? memoryBits() : widthOf(decoded.op1Register));
      case Mnemonic.Movsxd:
        if (width !== 64) return undefined;
        return decoded.op1Kind === OpKind.Memory ? this.#load(4, true) : this.#signExtend(this.#source(1, 32));
      case Mnemonic.Lea: {
        const at = this.#address();
        // A plain `x + 5` is a value of its own that may be compared; a scaled one is on the way to a table.
        return at?.kind === 'linear' && at.scale === 1n ? this.#opaque(at) : at;
      }
      case Mnemonic.Add: {
        const other = this.#source(1, width);
        return width === 64 && other !== undefined ? sum(this.#get(register), other) : undefined;
      }
      case Mnemonic.And: {
        const limit = this.#immediate();
        if (limit === undefined || limit >= 1n << 31n) return undefined;
        const value = this.#fresh('and');
        if (value.kind === 'linear') this.#bounds.set(`${value.term.key}&64`, limit);
        return value;
      }
      case Mnemonic.Xor:
        return decoded.op1Kind === OpKind.Register && decoded.op0Register === decoded.op1Register
          ? { kind: 'constant', value: 0n }
          : undefined;
      default:
        return undefined;
    }
  }

  /** `cmp x, n`, and `sub x, n`, whose flags say the same about the old x. */
  #comparison(): { term: Term; limit: bigint } | undefined {
    if (decoded.mnemonic !== Mnemonic.Cmp && decoded.mnemonic !== Mnemonic.Sub) return undefined;
    const limit = this.#immediate();
    if (limit === undefined) return undefined;
    const width = decoded.op0Kind === OpKind.Memory ? memoryBits() : widthOf(decoded.op0Register);
    const value = this.#source(0, width);
    const low = value === undefined ? undefined : this.#low(value, width);
    return low?.kind === 'linear' && low.scale === 1n && low.offset === 0n ? { term: low.term, limit } : undefined;
  }

  /** The immediate behind one other operand, as an unsigned number of the operation's width. */
  #immediate(): bigint | undefined {
    if (decoded.opCount !== 2 || decoded.op1Kind < OpKind.Immediate8 || decoded.op1Kind > OpKind.Immediate32to64) {
      return undefined;
    }
    const width = decoded.op0Kind === OpKind.Memory ? memoryBits() : widthOf(decoded.op0Register);
    return width === 0 ? undefined : BigInt.asUintN(width, decoded.immediate(1));
  }

  /** What `mov [memory], register` stores, so that a reload finds it. */
  #storedValue(): { value: Value; size: number } | undefined {
    if (decoded.mnemonic !== Mnemonic.Mov || decoded.op0Kind !== OpKind.Memory) return undefined;
    if (decoded.op1Kind !== OpKind.Register) return undefined;
    const bits = widthOf(decoded.op1Register);
    const value = this.#source(1, bits);
    return value === undefined || bits < 32 ? undefined : { value, size: bits / 8 };
  }

  #source(operand: 0 | 1, width: number): Value | undefined {
    const kind = decoded.opKind(operand);
    if (kind === OpKind.Memory) return width === 0 ? undefined : this.#load(width / 8, false);
    if (kind === OpKind.Register) {
      const register = wholeRegister(decoded.opRegister(operand));
      return register === undefined ? undefined : this.#low(this.#get(register), width);
    }
    if (kind < OpKind.Immediate8 || kind > OpKind.Immediate32to64) return undefined;
    return { kind: 'constant', value: BigInt.asUintN(width, decoded.immediate(operand)) };
  }

  #load(size: number, isSigned: boolean): Value | undefined {
    if (hasThreadSegment()) return undefined;
    const at = this.#address();
    if (at?.kind === 'linear' && (size === 4 || size === 8) && at.scale === BigInt(size)) {
      return { kind: 'entry', table: at.offset, size, term: at.term, isSigned };
    }
    const key = this.#memoryKey(size);
    return this.#stored.get(key) ?? linear({ key, bits: size * 8, signed: isSigned });
  }

  #memoryKey(size: number): string {
    const part = (register: iced.Register) => {
      const number = wholeRegister(register);
      if (register === Iced.None || register === Iced.RIP) return '';
      return number === undefined || widthOf(register) !== 64
        ? `${register}#${this.#position}`
        : keyOf(this.#get(number));
    };
    const { memoryBase, memoryIndex, memoryIndexScale, memoryDisplacement, memorySegment } = decoded;
    const place = [part(memoryBase), part(memoryIndex), memoryIndexScale, memoryDisplacement, memorySegment].join(' ');
    return `[${place}]${size}@${this.#generation}`;
  }

  /** The address of the memory operand. */
  #address(): Value | undefined {
    if (decoded.isIpRelMemoryOperand) return { kind: 'constant', value: decoded.ipRelMemoryAddress };
    const displacement = BigInt.asIntN(64, decoded.memoryDisplacement);
    let total: Value | undefined = { kind: 'constant', value: displacement & mask64 };
    if (decoded.memoryBase !== Iced.None) {
      const base = wholeRegister(decoded.memoryBase);
      if (base === undefined || widthOf(decoded.memoryBase) !== 64) return undefined;
      total = sum(this.#get(base), total);
    }
    if (decoded.memoryIndex !== Iced.None && total !== undefined) {
      const index = wholeRegister(decoded.memoryIndex);
      if (index === undefined || widthOf(decoded.memoryIndex) !== 64) return undefined;
      const scaled = scale(this.#get(index), BigInt(decoded.memoryIndexScale));
      total = scaled === undefined ? undefined : sum(total, scaled);
    }
    return total;
  }

  #get(register: Register): Value {
    const known = this.#registers.get(register);
    if (known !== undefined) return known;
    const constant = this.#initial(register);
    const value: Value =
      constant === undefined
        ? linear({ key: `start${register}`, bits: 64, signed: false })
        : { kind: 'constant', value: constant };
    this.#registers.set(register, value);
    return value;
  }

  #fresh(name: string, bits = 64): Value {
    return linear({ key: `${name}#${this.#position}`, bits, signed: false });
  }

  #opaque(value: Value, bits = 64): Value {
    return linear({ key: `(${keyOf(value)})`, bits, signed: false });
  }

  /** The low bits, zero-extended. */
  #low(value: Value, bits: number): Value {
    if (bits === 64) return value;
    if (value.kind === 'constant') return { kind: 'constant', value: BigInt.asUintN(bits, value.value) };
    if (value.kind === 'entry' && value.size * 8 === bits && !value.isSigned) return value;
    if (value.kind !== 'linear' || value.scale !== 1n || value.offset !== 0n) return this.#opaque(value, bits);
    const { key, bits: has, signed } = value.term;
    if (signed && has < bits) return this.#opaque(value, bits);
    const known = this.#bounds.get(`${key}&64`);
    // A bound on all of it is a bound on its low part when it fits.
    if (known !== undefined && known < 1n << BigInt(bits)) return value;
    return linear({ key, bits: Math.min(bits, has), signed: false });
  }

  #signExtend(value: Value | undefined): Value {
    if (value === undefined) return this.#fresh('sx');
    if (value.kind === 'entry' && value.size === 4) return { ...value, isSigned: true };
    const low = this.#low(value, 32);
    if (low.kind === 'constant') return { kind: 'constant', value: BigInt.asIntN(32, low.value) & mask64 };
    if (low.kind !== 'linear' || low.scale !== 1n || low.offset !== 0n) return this.#fresh('sx');
    return low.term.bits < 32 ? low : linear({ ...low.term, signed: low.term.bits === 32 });
  }
}

function linear(term: Term): Value {
  return { kind: 'linear', offset: 0n, scale: 1n, term };
}

function scale(value: Value, by: bigint): Value | undefined {
  if (value.kind === 'constant') return { kind: 'constant', value: (value.value * by) & mask64 };
  if (value.kind !== 'linear') return undefined;
  return { ...value, offset: (value.offset * by) & mask64, scale: value.scale * by };
}

function sum(one: Value, other: Value): Value | undefined {
  if (one.kind !== 'constant') return other.kind === 'constant' ? sum(other, one) : undefined;
  if (other.kind === 'constant') return { kind: 'constant', value: (one.value + other.value) & mask64 };
  if (other.kind === 'linear') return { ...other, offset: (one.value + other.offset) & mask64 };
  if (other.kind === 'entry' && other.size === 4 && other.isSigned) {
    return { kind: 'target', table: other.table, base: one.value, term: other.term };
  }
  return undefined;
}

function keyOf(value: Value): string {
  if (value.kind === 'constant') return value.value.toString(16);
  const { key, bits, signed } = value.term;
  const term = `${key}&${bits}${signed ? 's' : ''}`;
  if (value.kind === 'linear') return `${value.offset.toString(16)}+${value.scale}*${term}`;
  return `${value.kind}:${value.table.toString(16)}:${term}:${value.kind === 'entry' ? `${value.size}${value.isSigned}` : value.base}`;
}

function decodeInto(instruction: Instruction): void {
  const decoder = new iced.Decoder(64, instruction.bytes, iced.DecoderOptions.None);
  try {
    decoder.ip = instruction.address;
    decoder.decodeOut(decoded);
  } finally {
    decoder.free();
  }
}

function memoryBits(): number {
  return iced.MemorySizeExt.size(decoded.memorySize) * 8;
}

function hasThreadSegment(): boolean {
  return decoded.memorySegment === Iced.FS || decoded.memorySegment === Iced.GS;
}

/** Width in bits of a general register whose low part it is; 0 for every other kind, ah to bh included. */
function widthOf(register: iced.Register): number {
  if (register >= Iced.RAX && register <= Iced.R15) return 64;
  if (register >= Iced.EAX && register <= Iced.R15D) return 32;
  if (register >= Iced.AX && register <= Iced.R15W) return 16;
  if ((register >= Iced.AL && register <= Iced.BL) || (register >= Iced.SPL && register <= Iced.R15L)) return 8;
  return 0;
}

function wholeRegister(register: iced.Register): Register | undefined {
  if (widthOf(register) === 0) return undefined;
  if (register >= Iced.AX) return ((register - Iced.AX) & 15) as Register;
  return (register <= Iced.BL ? register - Iced.AL : register - Iced.SPL + 4) as Register;
}

function allOf(set: number): Register[] {
  const members: Register[] = [];
  for (let register = 0; register < 16; register++) {
    if (hasRegister(set, register as Register)) members.push(register as Register);
  }
  return members;
}
