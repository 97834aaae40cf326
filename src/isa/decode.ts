// Decoding machine code: Capstone gives the facts, iced checks the lengths, and only what both agree on is relied on.

import iced from 'iced-x86';
import type { Address } from '../address.js';
import { invariant } from '../errors.js';
import { Capstone } from './decode/capstone.js';
import { type Flow, flowAt, type Instruction, opcodeOffsetOf, type RipOperand } from './instruction.js';

let loading: Promise<void> | undefined;
let capstone: Capstone | undefined;
/** One iced instruction, reused: every iced object is a handle into WebAssembly memory that would have to be freed. */
const second = new iced.Instruction();

/** Loads Capstone (about 15 ms, once per process). Await it before the first {@link decode}. */
export function loadDecoder(): Promise<void> {
  loading ??= Capstone.load().then((loaded) => {
    capstone = loaded;
  });
  return loading;
}

/**
 * Decodes all of `bytes`, which lie at `address`. The instructions cover every byte: what cannot be decoded becomes an
 * instruction with a `problem`, as long as iced says, or one byte long. Needs {@link loadDecoder} first.
 */
export function decode(bytes: Uint8Array, address: Address): Instruction[] {
  const code = bytes.slice();
  return new Decoding(code, address).run(code.length, Number.POSITIVE_INFINITY);
}

/** Decodes the one instruction at the start of `bytes`, or returns undefined when there is none. */
export function decodeOne(bytes: Uint8Array, address: Address): Instruction | undefined {
  const code = bytes.slice(0, maximumLength);
  return new Decoding(code, address).run(code.length, 1)[0];
}

/** No instruction is longer; manual volume 2, section 2.3.11. */
export const maximumLength = 15;

const noSecond = 'iced cannot decode it';
const noFirst = 'Capstone cannot decode it';

/**
 * An instruction that both decoders know. Its bytes are a view of the code it came from, and its text is made when asked
 * for: making both for every instruction would halve the speed, and most are never looked at.
 */
class Decoded implements Instruction {
  constructor(
    private readonly code: Uint8Array,
    private readonly position: number,
    readonly address: Address,
    readonly length: number,
    readonly flow: Flow,
    readonly target: Address | undefined,
    readonly ripOperand: RipOperand | undefined,
    readonly problem: string | undefined,
  ) {}

  get bytes(): Uint8Array {
    return this.code.subarray(this.position, this.position + this.length);
  }

  get mnemonic(): string {
    return textOf(this).mnemonic;
  }

  get operands(): string {
    return textOf(this).operands;
  }
}

function textOf(instruction: Instruction): { mnemonic: string; operands: string } {
  invariant(capstone !== undefined, 'an instruction without a decoder');
  capstone.open(instruction.bytes, 0, instruction.address);
  const text = { mnemonic: capstone.mnemonic(0), operands: capstone.operands(0) };
  capstone.close();
  return text;
}

/** One run over one stretch of code. Holds the position in both decoders while it lasts. */
class Decoding {
  readonly #capstone: Capstone;
  readonly #code: Uint8Array;
  readonly #base: Address;
  readonly #found: Instruction[] = [];

  constructor(code: Uint8Array, base: Address) {
    invariant(capstone !== undefined, 'decode() before loadDecoder() is done');
    this.#capstone = capstone;
    this.#code = code;
    this.#base = base;
  }

  run(end: number, most: number): Instruction[] {
    const decoder = new iced.Decoder(64, this.#code, iced.DecoderOptions.None);
    try {
      decoder.ip = this.#base;
      let position = 0;
      while (position < end && this.#found.length < most) position = this.#window(decoder, position, most);
    } finally {
      decoder.free();
    }
    return this.#found;
  }

  /** Decodes one window of Capstone's and returns the position after what was understood. */
  #window(decoder: iced.Decoder, start: number, most: number): number {
    const address = this.#addressAt(start);
    const count = Math.min(this.#capstone.open(this.#code, start, address), most - this.#found.length);
    try {
      let position = start;
      for (let index = 0; index < count; index++) {
        decoder.decodeOut(second);
        const length = this.#capstone.length(index);
        if (second.isInvalid || second.length !== length) return this.#bad(decoder, position, length);
        this.#found.push(this.#good(index, position, length));
        position += length;
      }
      if (count > 0) return position;
      decoder.decodeOut(second);
      return this.#bad(decoder, start, 0);
    } finally {
      this.#capstone.close();
    }
  }

  /** An instruction on whose length both decoders agree. */
  #good(index: number, position: number, length: number): Instruction {
    const code = this.#code;
    const end = position + length;
    const opcode = opcodeOffsetOf(code, position, end);
    const flow = flowAt(code, opcode);
    let target: Address | undefined;
    let problem: string | undefined;
    if (flow !== 'next') {
      target = this.#branchTarget(flow, code[opcode] as number, end);
      if (target !== undefined && target !== this.#capstone.immediate(index)) {
        problem = 'Capstone reads another branch target from it than its bytes say';
      } else if (isVendorSpecific(code, position, opcode, flow)) {
        problem = 'a near branch with an operand-size prefix: Intel and AMD processors run it differently';
      }
    }
    const ripOperand = this.#ripOperand(index, position, end);
    if ((ripOperand !== undefined) !== second.isIpRelMemoryOperand) {
      problem = 'Capstone and iced disagree on whether it is RIP-relative';
    } else if (ripOperand === 'eip') {
      problem = 'addresses memory relative to EIP, which no compiler emits and fastprobe does not move';
    }
    const pointed = ripOperand === 'eip' ? undefined : ripOperand;
    return new Decoded(code, position, this.#addressAt(position), length, flow, target, pointed, problem);
  }

  /** Notes what one decoder (or both) rejects; `length` is Capstone's, 0 when it failed. Returns the position to go on at. */
  #bad(decoder: iced.Decoder, position: number, length: number): number {
    const truncated = decoder.lastError === iced.DecoderError.NoMoreBytes;
    const byIced = second.isInvalid ? 0 : second.length;
    let problem: string;
    if (byIced > 0 && length > 0) problem = `Capstone says ${length} bytes, iced says ${byIced}`;
    else if (byIced > 0) problem = noFirst;
    else if (length > 0) problem = noSecond;
    else problem = truncated ? 'it goes on beyond the bytes given' : 'it is not an instruction';
    // iced knows more instructions and had no wrong length in any code tried, so its length keeps the sweep in step.
    const used = byIced > 0 ? byIced : Math.max(length, 1);
    const end = Math.min(position + used, this.#code.length);
    const [mnemonic = '(bad)', ...operands] = byIced > 0 ? second.toString().split(' ') : [];
    const opcode = opcodeOffsetOf(this.#code, position, end);
    const flow = byIced > 0 ? flowAt(this.#code, opcode) : 'trap';
    this.#found.push({
      address: this.#addressAt(position),
      length: end - position,
      bytes: this.#code.subarray(position, end),
      mnemonic,
      operands: operands.join(' '),
      flow,
      target: byIced > 0 ? this.#branchTarget(flow, this.#code[opcode] as number, end) : undefined,
      ripOperand: undefined,
      problem,
    });
    decoder.position = end;
    decoder.ip = this.#addressAt(end);
    return end;
  }

  #branchTarget(flow: Flow, opcode: number, end: number): Address | undefined {
    if (flow === 'loop' || opcode === 0xeb || opcode >> 4 === 7) return this.#addressAt(end + this.#int8(end - 1));
    if (flow === 'jump' || flow === 'call' || flow === 'conditional-jump' || flow === 'xbegin') {
      return this.#addressAt(end + this.#int32(end - 4));
    }
    return undefined;
  }

  /** From ModRM (mod 0, rm 5), with Capstone's operand as the witness. */
  #ripOperand(index: number, position: number, end: number): RipOperand | 'eip' | undefined {
    const modrm = this.#capstone.modrmOffset(index);
    if (modrm === 0 || ((this.#code[position + modrm] as number) & 0xc7) !== 0x05) return undefined;
    const pointer = this.#capstone.instructionPointer(index);
    if (pointer === undefined || pointer === 'eip') return pointer;
    const offset = modrm + 1;
    if (this.#capstone.displacementOffset(index) !== offset) return undefined;
    return { offset, target: this.#addressAt(end + this.#int32(position + offset)) };
  }

  #addressAt(position: number): Address {
    return BigInt.asUintN(64, this.#base + BigInt(position)) as Address;
  }

  #int8(position: number): number {
    return ((this.#code[position] as number) << 24) >> 24;
  }

  #int32(position: number): number {
    const code = this.#code;
    return (
      (code[position] as number) |
      ((code[position + 1] as number) << 8) |
      ((code[position + 2] as number) << 16) |
      ((code[position + 3] as number) << 24)
    );
  }
}

/**
 * True for a near branch under a 66 prefix without REX.W: Intel ignores the prefix, AMD cuts the instruction pointer to 16
 * bits (and takes a 16-bit offset). The `66 66 48 e8` of a TLS call has REX.W and is harmless.
 */
function isVendorSpecific(code: Uint8Array, position: number, opcode: number, flow: Flow): boolean {
  if (flow === 'trap' || flow === 'syscall' || flow === 'xbegin' || flow === 'far') return false;
  const last = code[opcode - 1] as number;
  if (opcode > position && last >> 4 === 4 && (last & 8) !== 0) return false;
  for (let at = position; at < opcode; at++) if (code[at] === 0x66) return true;
  return false;
}
