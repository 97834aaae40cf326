// The sixteen general registers and the flags: numbers, names, and sets of them as bit masks.

/** A general register by its number in machine code. The width is a matter of the instruction that uses it. */
export type Register = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15;

export const rax = 0;
export const rcx = 1;
export const rdx = 2;
export const rbx = 3;
export const rsp = 4;
export const rbp = 5;
export const rsi = 6;
export const rdi = 7;
export const r8 = 8;
export const r9 = 9;
export const r10 = 10;
export const r11 = 11;
export const r12 = 12;
export const r13 = 13;
export const r14 = 14;
export const r15 = 15;

/** All registers in the order of their numbers. */
export const registers: readonly Register[] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/** Operand width in bits. */
export type Width = 8 | 16 | 32 | 64;

const names64 = 'rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15'.split(' ');
const names32 = 'eax ecx edx ebx esp ebp esi edi r8d r9d r10d r11d r12d r13d r14d r15d'.split(' ');
const names16 = 'ax cx dx bx sp bp si di r8w r9w r10w r11w r12w r13w r14w r15w'.split(' ');
const names8 = 'al cl dl bl spl bpl sil dil r8b r9b r10b r11b r12b r13b r14b r15b'.split(' ');
const namesByWidth: Readonly<Record<Width, readonly string[]>> = { 8: names8, 16: names16, 32: names32, 64: names64 };

/** `rax`, `r10d`, `sil`. */
export function registerName(register: Register, width: Width = 64): string {
  return namesByWidth[width][register] as string;
}

/** The register and width that a name stands for, or undefined. The high bytes (ah, bh, ch, dh) are not among them. */
export function registerNamed(name: string): { register: Register; width: Width } | undefined {
  for (const width of [64, 32, 16, 8] as const) {
    const index = namesByWidth[width].indexOf(name);
    if (index >= 0) return { register: index as Register, width };
  }
  return undefined;
}

/** A set of general registers: bit n stands for register n. */
export type RegisterSet = number;

export const noRegisters: RegisterSet = 0;
export const allRegisters: RegisterSet = 0xffff;

export function registerSet(...members: readonly Register[]): RegisterSet {
  return members.reduce<RegisterSet>((set, member) => set | (1 << member), 0);
}

export function hasRegister(set: RegisterSet, register: Register): boolean {
  return (set & (1 << register)) !== 0;
}

/** The members of a set, lowest number first. */
export function registersIn(set: RegisterSet): Register[] {
  return registers.filter((register) => hasRegister(set, register));
}

/** A set of flags, each at its place in RFLAGS. */
export type FlagSet = number;

export const carryFlag: FlagSet = 1 << 0;
export const parityFlag: FlagSet = 1 << 2;
export const adjustFlag: FlagSet = 1 << 4;
export const zeroFlag: FlagSet = 1 << 6;
export const signFlag: FlagSet = 1 << 7;
export const directionFlag: FlagSet = 1 << 10;
export const overflowFlag: FlagSet = 1 << 11;

/** What arithmetic sets and branches test. */
export const arithmeticFlags: FlagSet = carryFlag | parityFlag | adjustFlag | zeroFlag | signFlag | overflowFlag;
export const allFlags: FlagSet = arithmeticFlags | directionFlag;

const flagNames: readonly (readonly [FlagSet, string])[] = [
  [carryFlag, 'CF'],
  [parityFlag, 'PF'],
  [adjustFlag, 'AF'],
  [zeroFlag, 'ZF'],
  [signFlag, 'SF'],
  [directionFlag, 'DF'],
  [overflowFlag, 'OF'],
];

/** `CF ZF`, for people. */
export function formatFlags(set: FlagSet): string {
  return flagNames.flatMap(([flag, name]) => ((set & flag) === 0 ? [] : [name])).join(' ');
}

/** `rax rcx`, for people. */
export function formatRegisters(set: RegisterSet): string {
  return registersIn(set)
    .map((register) => registerName(register))
    .join(' ');
}
