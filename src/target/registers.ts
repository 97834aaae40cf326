// The general registers of a thread, in the layout of the kernel's user_regs_struct (sys/user.h).

/** In the order of user_regs_struct. */
export const registerNames = [
  'r15',
  'r14',
  'r13',
  'r12',
  'rbp',
  'rbx',
  'r11',
  'r10',
  'r9',
  'r8',
  'rax',
  'rcx',
  'rdx',
  'rsi',
  'rdi',
  'orig_rax',
  'rip',
  'cs',
  'eflags',
  'rsp',
  'ss',
  'fs_base',
  'gs_base',
  'ds',
  'es',
  'fs',
  'gs',
] as const;

export type RegisterName = (typeof registerNames)[number];

/** The registers of one stopped thread. Plain values: changing them changes the thread only through setRegisters(). */
export type Registers = Record<RegisterName, bigint>;

/** Takes the registers of the `index`th thread out of the addon's array. */
export function unpackRegisters(values: BigUint64Array, index: number): Registers {
  const start = index * registerNames.length;
  return Object.fromEntries(registerNames.map((name, i) => [name, values[start + i] ?? 0n])) as Registers;
}

/** Puts registers into the addon's form, one thread after the other. */
export function packRegisters(threads: Iterable<Registers>): BigUint64Array {
  return BigUint64Array.from(
    [...threads].flatMap((registers) => registerNames.map((name) => BigInt.asUintN(64, registers[name]))),
  );
}
