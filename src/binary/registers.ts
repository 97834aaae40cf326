// The registers of x86-64 by the numbers that DWARF gives them (System V ABI, AMD64 supplement, figure 3.36).

const general = [
  'rax',
  'rdx',
  'rcx',
  'rbx',
  'rsi',
  'rdi',
  'rbp',
  'rsp',
  'r8',
  'r9',
  'r10',
  'r11',
  'r12',
  'r13',
  'r14',
  'r15',
  'rip',
] as const;
const vector = [
  'xmm0',
  'xmm1',
  'xmm2',
  'xmm3',
  'xmm4',
  'xmm5',
  'xmm6',
  'xmm7',
  'xmm8',
  'xmm9',
  'xmm10',
  'xmm11',
  'xmm12',
  'xmm13',
  'xmm14',
  'xmm15',
] as const;
const stack = ['st0', 'st1', 'st2', 'st3', 'st4', 'st5', 'st6', 'st7'] as const;

export type GeneralRegister = (typeof general)[number];
/** A register in which a variable can be. */
export type Register = GeneralRegister | (typeof vector)[number] | (typeof stack)[number];

/** The register of a DWARF number; undefined for one that holds no variables (segments, control, AVX-512 halves). */
export function registerOf(number: number): Register | undefined {
  return general[number] ?? vector[number - 17] ?? stack[number - 33];
}

/** A register that can be the base of an address. */
export function generalRegisterOf(number: number): GeneralRegister | undefined {
  return general[number];
}

export function isGeneralRegister(register: Register): register is GeneralRegister {
  return (general as readonly string[]).includes(register);
}
