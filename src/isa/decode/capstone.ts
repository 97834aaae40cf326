// The raw Capstone module: loading it, and reading its C structs from the WebAssembly heap.

import { Const, loadCapstone } from 'capstone-wasm';
import { FastprobeError } from '../../errors.js';

/** What emscripten puts into the object passed to loadCapstone, as far as we use it. */
interface Module {
  readonly HEAPU8: Uint8Array;
  readonly HEAPU16: Uint16Array;
  readonly HEAPU32: Uint32Array;
  readonly HEAP64: BigInt64Array;
  readonly _malloc: (size: number) => number;
  readonly _cs_open: (architecture: number, mode: number, handleOut: number) => number;
  readonly _cs_option: (handle: number, option: number, value: number) => number;
  readonly _cs_disasm: (
    handle: number,
    code: number,
    size: number,
    address: bigint,
    count: number,
    instructionsOut: number,
  ) => number;
  readonly _cs_free: (instructions: number, count: number) => void;
}

/**
 * Offsets in the structs of capstone-wasm 1.0.3. They belong to this build only: Capstone moved them before 5.0 final and
 * again in 6, which is why the version is pinned and {@link selfCheck} runs at load.
 */
const layout = {
  stride: 240,
  size: 16,
  mnemonic: 42,
  operands: 74,
  detail: 236,
  /** From the start of cs_detail. */
  x86: 88,
  /** From the start of cs_x86. */
  operandCount: 64,
  firstOperand: 72,
  operandStride: 48,
  modrmOffset: 456,
  displacementOffset: 457,
  /** From the start of an operand. */
  operandType: 0,
  operandValue: 8,
  memoryBase: 12,
} as const;

/** Values of Capstone's enumerations that the package leaves out of its constants; the self-check covers them too. */
const operandIsImmediate = 2;
const operandIsMemory = 3;
const registerEip = 26;
const registerRip = 41;

/** The heap is fixed at 16 MB and every instruction takes about 2 KB of it while a call runs. */
const windowSize = 1024;

const unusable = (what: string, cause?: unknown): FastprobeError =>
  new FastprobeError('FASTPROBE_DECODER_UNUSABLE', `capstone-wasm ${what}`, {
    hint: 'Reinstall with the version pinned in package.json (capstone-wasm 1.0.3): npm ci',
    ...(cause === undefined ? {} : { cause }),
  });

/**
 * Capstone for x86-64 with details on. Owns one handle and one window of the heap. Not reentrant: {@link open} a window,
 * read its instructions, {@link close} it.
 */
export class Capstone {
  readonly #module: Module;
  readonly #handle: number;
  readonly #window: number;
  readonly #out: number;
  #first = 0;
  #count = 0;

  private constructor(module: Module) {
    this.#module = module;
    this.#out = module._malloc(4);
    const failed = module._cs_open(Const.CS_ARCH_X86, Const.CS_MODE_64, this.#out);
    this.#handle = module.HEAPU32[this.#out >> 2] ?? 0;
    if (failed !== 0 || module._cs_option(this.#handle, Const.CS_OPT_DETAIL, Const.CS_OPT_ON) !== 0) {
      throw unusable('cannot be opened for x86-64 with details');
    }
    this.#window = module._malloc(windowSize);
  }

  static async load(): Promise<Capstone> {
    // The package keeps its module to itself, but hands the object it is given to emscripten, which fills it in.
    const module: Partial<Module> = {};
    try {
      await loadCapstone(module);
    } catch (cause) {
      throw unusable('does not load', cause);
    }
    if (module._cs_disasm === undefined || module.HEAPU8 === undefined)
      throw unusable('does not export its C interface');
    const capstone = new Capstone(module as Module);
    selfCheck(capstone);
    return capstone;
  }

  /** Decodes from `position`, up to one window, and returns how many instructions were decoded before the first failure. */
  open(bytes: Uint8Array, position: number, address: bigint): number {
    const module = this.#module;
    const size = Math.min(windowSize, bytes.length - position);
    module.HEAPU8.set(bytes.subarray(position, position + size), this.#window);
    this.#count = module._cs_disasm(this.#handle, this.#window, size, address, 0, this.#out);
    this.#first = module.HEAPU32[this.#out >> 2] as number;
    return this.#count;
  }

  close(): void {
    if (this.#count > 0) this.#module._cs_free(this.#first, this.#count);
    this.#count = 0;
  }

  length(index: number): number {
    return this.#module.HEAPU16[(this.#first + index * layout.stride + layout.size) >> 1] as number;
  }

  mnemonic(index: number): string {
    return this.#text(this.#first + index * layout.stride + layout.mnemonic);
  }

  operands(index: number): string {
    return this.#text(this.#first + index * layout.stride + layout.operands);
  }

  /** Where the ModRM byte is, or 0 without one. */
  modrmOffset(index: number): number {
    return this.#module.HEAPU8[this.#x86(index) + layout.modrmOffset] as number;
  }

  /** Where the displacement starts, or 0. (The size beside it is wrong under a 66 prefix: never read it.) */
  displacementOffset(index: number): number {
    return this.#module.HEAPU8[this.#x86(index) + layout.displacementOffset] as number;
  }

  /** The immediate of the first operand, which is where a direct branch has its target. */
  immediate(index: number): bigint | undefined {
    const operand = this.#x86(index) + layout.firstOperand;
    if (this.#module.HEAPU32[(operand + layout.operandType) >> 2] !== operandIsImmediate) return undefined;
    return BigInt.asUintN(64, this.#module.HEAP64[(operand + layout.operandValue) >> 3] as bigint);
  }

  /** Which instruction pointer a memory operand of the instruction is based on. */
  instructionPointer(index: number): 'rip' | 'eip' | undefined {
    const x86 = this.#x86(index);
    const count = this.#module.HEAPU8[x86 + layout.operandCount] as number;
    for (let i = 0; i < count; i++) {
      const operand = x86 + layout.firstOperand + i * layout.operandStride;
      if (this.#module.HEAPU32[(operand + layout.operandType) >> 2] !== operandIsMemory) continue;
      const base = this.#module.HEAPU32[(operand + layout.memoryBase) >> 2];
      if (base === registerRip) return 'rip';
      if (base === registerEip) return 'eip';
    }
    return undefined;
  }

  #x86(index: number): number {
    const detail = this.#module.HEAPU32[(this.#first + index * layout.stride + layout.detail) >> 2] as number;
    return detail + layout.x86;
  }

  #text(start: number): string {
    const heap = this.#module.HEAPU8;
    let text = '';
    for (let at = start; heap[at] !== 0; at++) text += String.fromCharCode(heap[at] as number);
    return text;
  }
}

/** Known encodings and what the structs must say about them: length, text, ModRM, displacement, immediate, base. */
const knownEncodings: readonly (readonly [
  string,
  string,
  number,
  number,
  bigint | undefined,
  'rip' | 'eip' | undefined,
])[] = [
  ['c3', 'ret ', 0, 0, undefined, undefined],
  ['e8fb0f0000', 'call 0x402000', 0, 0, 0x402000n, undefined],
  ['7ffe', 'jg 0x401000', 0, 0, 0x401000n, undefined],
  ['488d0500000000', 'lea rax, [rip]', 2, 3, undefined, 'rip'],
  ['660f6f0d10000000', 'movdqa xmm1, xmmword ptr [rip + 0x10]', 3, 4, undefined, 'rip'],
  ['c5f96f0510000000', 'vmovdqa xmm0, xmmword ptr [rip + 0x10]', 3, 4, undefined, 'rip'],
  ['67488b0578563412', 'mov rax, qword ptr [eip + 0x12345678]', 3, 4, undefined, 'eip'],
  ['f048ff0578563412', 'lock inc qword ptr [rip + 0x12345678]', 3, 4, undefined, 'rip'],
  ['48895c2408', 'mov qword ptr [rsp + 8], rbx', 2, 4, undefined, undefined],
  ['c6050100000007', 'mov byte ptr [rip + 1], 7', 1, 2, undefined, 'rip'],
  ['48b88877665544332211', 'movabs rax, 0x1122334455667788', 0, 0, undefined, undefined],
  ['6a80', 'push -0x80', 0, 0, 0xffff_ffff_ffff_ff80n, undefined],
];

/** Throws unless every known encoding reads back as it must: a wrong struct offset would corrupt the target's code. */
export function selfCheck(capstone: Capstone, encodings: typeof knownEncodings = knownEncodings): void {
  for (const [hex, text, modrm, displacement, immediate, pointer] of encodings) {
    const bytes = Uint8Array.from(Buffer.from(hex, 'hex'));
    const count = capstone.open(bytes, 0, 0x401000n);
    const seen =
      count === 0
        ? undefined
        : [
            capstone.length(0),
            `${capstone.mnemonic(0)} ${capstone.operands(0)}`,
            capstone.modrmOffset(0),
            capstone.displacementOffset(0),
            capstone.immediate(0),
            capstone.instructionPointer(0),
          ];
    capstone.close();
    const wanted = [bytes.length, text, modrm, displacement, immediate, pointer];
    if (count !== 1 || seen === undefined || seen.some((fact, i) => fact !== wanted[i])) {
      throw unusable(`misreads ${hex} (${text}): ${seen === undefined ? 'not decoded' : seen.join(' | ')}`);
    }
  }
}
