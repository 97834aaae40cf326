// What one instruction reads and writes: registers, flags, memory. From iced, because Capstone's access fields are wrong.

import iced from 'iced-x86';
import type { Instruction } from './instruction.js';
import {
  adjustFlag,
  allFlags,
  allRegisters,
  carryFlag,
  directionFlag,
  type FlagSet,
  overflowFlag,
  parityFlag,
  type Register,
  type RegisterSet,
  signFlag,
  zeroFlag,
} from './registers.js';

/** One piece of memory that an instruction touches. */
export interface MemoryAccess {
  readonly base: Register | undefined;
  readonly index: Register | undefined;
  /** True for gathers and scatters: the index is a vector register and many places are touched. */
  readonly vectorIndex: boolean;
  readonly scale: 1 | 2 | 4 | 8;
  /** Signed. For a RIP-relative operand there is no base, and this is the whole address. */
  readonly displacement: bigint;
  /** The segment whose base is added, where it is not zero in user space. */
  readonly segment: 'fs' | 'gs' | undefined;
  /** In bytes; 0 when it depends on more than the instruction: a repeat count, a bit number in a register, the machine. */
  readonly size: number;
  readonly read: boolean;
  readonly written: boolean;
  /** It may not be touched at all (masked moves, rep with a count of zero, cmpxchg's store). */
  readonly conditional: boolean;
}

/** Everything an instruction reads and writes, whether it names it or not. */
export interface Access {
  /** Registers whose old value can matter: read, or written only in part (8 and 16 bits keep the rest). */
  readonly reads: RegisterSet;
  /** Registers whose old value is gone for sure: all 64 bits are replaced, on every execution. */
  readonly writes: RegisterSet;
  /** Registers that may differ afterwards: `writes`, and what is written in part or under a condition. */
  readonly changes: RegisterSet;
  readonly flagsRead: FlagSet;
  /** Flags that are replaced on every execution. */
  readonly flagsWritten: FlagSet;
  /** Flags that may differ afterwards, including those the manual leaves undefined. */
  readonly flagsChanged: FlagSet;
  readonly memory: readonly MemoryAccess[];
}

/** What has to be assumed of a system call, and of an instruction that iced cannot decode. */
const anything: Access = {
  reads: allRegisters,
  writes: 0,
  changes: allRegisters,
  flagsRead: allFlags,
  flagsWritten: 0,
  flagsChanged: allFlags,
  memory: [],
};

const factory = new iced.InstructionInfoFactory();
const decoded = new iced.Instruction();
/** Flow and liveness ask for the same instructions again and again; an answer lives as long as its instruction. */
const known = new WeakMap<Instruction, Access>();

/**
 * The exact access facts of an instruction by itself: of a call only what the call instruction does, not the callee. For a
 * system call, and for what iced cannot decode, everything is read and nothing is written for sure.
 */
export function accessOf(instruction: Instruction): Access {
  const before = known.get(instruction);
  if (before !== undefined) return before;
  const access = computeAccess(instruction);
  known.set(instruction, access);
  return access;
}

function computeAccess(instruction: Instruction): Access {
  const decoder = new iced.Decoder(64, instruction.bytes, iced.DecoderOptions.None);
  try {
    decoder.ip = instruction.address;
    decoder.decodeOut(decoded);
  } finally {
    decoder.free();
  }
  if (decoded.isInvalid) return anything;
  const info = factory.info(decoded);
  try {
    // The kernel can read any register, and a signal return replaces them all.
    if (instruction.flow === 'syscall') return anything;
    return { ...registersOf(info), ...flagsOf(decoded), memory: memoryOf(info, decoded) };
  } finally {
    info.free();
  }
}

const { OpAccess, Register: Iced } = iced;

/** What each of iced's access kinds means, by its number. */
const isRead = table(OpAccess.Read, OpAccess.CondRead, OpAccess.ReadWrite, OpAccess.ReadCondWrite);
const isWrite = table(OpAccess.Write, OpAccess.CondWrite, OpAccess.ReadWrite, OpAccess.ReadCondWrite);
const isConditional = table(OpAccess.CondRead, OpAccess.CondWrite, OpAccess.ReadCondWrite);

function table(...kinds: readonly iced.OpAccess[]): readonly boolean[] {
  return Array.from({ length: 8 }, (_, kind) => kinds.includes(kind));
}

function registersOf(info: iced.InstructionInfo): Pick<Access, 'reads' | 'writes' | 'changes'> {
  let reads = 0;
  let writes = 0;
  let changes = 0;
  for (const used of info.usedRegisters() as iced.UsedRegister[]) {
    const { register, access } = used;
    used.free();
    const number = generalRegister(register);
    if (number === undefined) continue;
    const bit = 1 << number;
    if (isRead[access]) reads |= bit;
    if (!isWrite[access]) continue;
    changes |= bit;
    // A 32-bit write clears the upper half (manual volume 1, section 3.4.1.1); narrower ones keep the rest.
    if (register < Iced.EAX) reads |= bit;
    else if (!isConditional[access]) writes |= bit;
  }
  return { reads, writes, changes };
}

/** The general register of which `register` is a part, or undefined for every other kind. */
function generalRegister(register: iced.Register): Register | undefined {
  if (register >= Iced.AX && register <= Iced.R15) return ((register - Iced.AX) & 15) as Register;
  if (register >= Iced.AL && register <= Iced.BL) return (register - Iced.AL) as Register;
  if (register >= Iced.AH && register <= Iced.BH) return (register - Iced.AH) as Register;
  if (register >= Iced.SPL && register <= Iced.R15L) return (register - Iced.SPL + 4) as Register;
  return undefined;
}

const flagBits: readonly (readonly [iced.RflagsBits, FlagSet])[] = [
  [iced.RflagsBits.CF, carryFlag],
  [iced.RflagsBits.PF, parityFlag],
  [iced.RflagsBits.AF, adjustFlag],
  [iced.RflagsBits.ZF, zeroFlag],
  [iced.RflagsBits.SF, signFlag],
  [iced.RflagsBits.DF, directionFlag],
  [iced.RflagsBits.OF, overflowFlag],
];

function flagSet(bits: number): FlagSet {
  let set = 0;
  for (const [theirs, ours] of flagBits) if ((bits & theirs) !== 0) set |= ours;
  return set;
}

const { Mnemonic } = iced;
const logical: ReadonlySet<iced.Mnemonic> = new Set([Mnemonic.And, Mnemonic.Or, Mnemonic.Xor, Mnemonic.Test]);
const shifts: ReadonlySet<iced.Mnemonic> = new Set([
  Mnemonic.Shl,
  Mnemonic.Sal,
  Mnemonic.Shr,
  Mnemonic.Sar,
  Mnemonic.Rol,
  Mnemonic.Ror,
  Mnemonic.Rcl,
  Mnemonic.Rcr,
  Mnemonic.Shld,
  Mnemonic.Shrd,
]);

function flagsOf(instruction: iced.Instruction): Pick<Access, 'flagsRead' | 'flagsWritten' | 'flagsChanged'> {
  const flagsChanged = flagSet(instruction.rflagsModified);
  const { mnemonic } = instruction;
  let flagsWritten = 0;
  if (!mayLeaveFlags(instruction, mnemonic)) {
    flagsWritten = flagSet(instruction.rflagsWritten | instruction.rflagsCleared | instruction.rflagsSet);
    // "Undefined" can mean "as before" on some processor, so it does not count as written. The one exception is AF after a
    // logical instruction: every processor clears it, and without it hardly any flag state would ever be replaced whole.
    if (logical.has(mnemonic)) flagsWritten |= adjustFlag;
  }
  return { flagsRead: flagSet(instruction.rflagsRead), flagsWritten, flagsChanged };
}

/** True when the instruction can run to its end and leave every flag as it was, which iced's tables do not say. */
function mayLeaveFlags(instruction: iced.Instruction, mnemonic: iced.Mnemonic): boolean {
  // A shift by cl is a shift by zero at times; a repeated compare or scan may have a count of zero.
  if (shifts.has(mnemonic)) return instruction.opRegister(instruction.opCount - 1) === Iced.CL;
  return instruction.isStringInstruction && (instruction.hasRepPrefix || instruction.hasRepnePrefix);
}

const bitTests: ReadonlySet<iced.Mnemonic> = new Set([Mnemonic.Bt, Mnemonic.Bts, Mnemonic.Btr, Mnemonic.Btc]);

function memoryOf(info: iced.InstructionInfo, instruction: iced.Instruction): MemoryAccess[] {
  // `bt [mem], reg` reaches any byte within 2^60 of its operand: the register counts bits from there.
  const sizeVaries = bitTests.has(instruction.mnemonic) && instruction.op1Kind === iced.OpKind.Register;
  const memory: MemoryAccess[] = [];
  for (const used of info.usedMemory() as iced.UsedMemory[]) {
    const { access, base, index, segment } = used;
    const read = isRead[access] === true;
    const written = isWrite[access] === true;
    if (read || written) {
      const vectorIndex = index !== Iced.None && generalRegister(index) === undefined;
      memory.push({
        base: generalRegister(base),
        index: generalRegister(index),
        vectorIndex,
        scale: used.scale as 1 | 2 | 4 | 8,
        displacement: BigInt.asIntN(64, used.displacement),
        segment: segment === Iced.FS ? 'fs' : segment === Iced.GS ? 'gs' : undefined,
        size: sizeVaries ? 0 : iced.MemorySizeExt.size(used.memorySize),
        read,
        written,
        conditional: isConditional[access] === true,
      });
    }
    used.free();
  }
  return memory;
}
