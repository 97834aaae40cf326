// Liveness: which registers and flags hold nothing that anyone will look at, so that a trampoline may overwrite them.

import type { Address } from '../address.js';
import { accessOf } from './access.js';
import type { BasicBlock, FunctionFlow } from './flow.js';
import type { Instruction } from './instruction.js';
import {
  allFlags,
  allRegisters,
  arithmeticFlags,
  directionFlag,
  type FlagSet,
  type RegisterSet,
  rbp,
  rbx,
  registerSet,
  rsp,
} from './registers.js';

/** What may be overwritten before an instruction. */
export interface Dead {
  readonly registers: RegisterSet;
  /** Of the arithmetic flags. The direction flag is never dead. */
  readonly flags: FlagSet;
}

export const nothingDead: Dead = { registers: 0, flags: 0 };

/** Registers in the low half of a word, flags in the upper one: one `&` and one `|` do for both. */
type Bits = number;
const flagShift = 16;
const everything: Bits = allRegisters | (allFlags << flagShift);
const bitsOf = (registers: RegisterSet, flags: FlagSet): Bits => registers | (flags << flagShift);

/** What an unwinder restores for a landing pad; System V ABI, figure 3.4. */
const keptByUnwinding: RegisterSet = registerSet(rbx, rbp, 12, 13, 14, 15);

/**
 * Liveness in one function, proved from its instructions alone. A register or flag is dead only if every path overwrites it
 * whole before reading it and before control leaves the function. No calling convention is assumed: a caller that knows a
 * callee may keep values in registers that the convention gives away (gcc's -fipa-ra), and assembly has conventions of its
 * own. So at a call, a return, a tail call, a system call, a trap, an unresolved jump, and an instruction that is not
 * understood, everything is live, flags included.
 *
 * The stack pointer and the direction flag are always live, and so is the red zone: nothing is claimed about the 128 bytes
 * below the stack pointer, code that pushes must skip them.
 *
 * Not considered: somebody who looks at registers from outside. A debugger, a core dump or the program's own handler of
 * SIGSEGV, called for an instruction after the site, may find another value in a register that is dead. Where control can
 * really go on from such a fault, to a landing pad, the registers that unwinding restores are live throughout, provided that
 * the landing pads were given to `analyseFlow`.
 *
 * Blocks are analysed when first asked for, and only those that the answer depends on. Single-threaded use.
 */
export class Liveness {
  readonly #flow: FunctionFlow;
  readonly #blocks: readonly BasicBlock[];
  readonly #index: ReadonlyMap<Address, number>;
  /** Per block: what it reads before writing, what it overwrites, what is live at its start. */
  readonly #reads: Int32Array;
  readonly #writes: Int32Array;
  readonly #liveIn: Int32Array;
  readonly #isSolved: Uint8Array;
  readonly #pinned: Bits;

  constructor(flow: FunctionFlow) {
    this.#flow = flow;
    this.#blocks = flow.blocks;
    this.#index = new Map(flow.blocks.map((block, index) => [block.start, index]));
    this.#reads = new Int32Array(flow.blocks.length);
    this.#writes = new Int32Array(flow.blocks.length);
    this.#liveIn = new Int32Array(flow.blocks.length);
    this.#isSolved = new Uint8Array(flow.blocks.length);
    const kept = flow.landingPads.length > 0 ? keptByUnwinding : 0;
    this.#pinned = bitsOf(registerSet(rsp) | kept, directionFlag);
  }

  /** What is dead before the instruction at `at` runs. Nothing, where no instruction starts. */
  deadBefore(at: Address): Dead {
    const block = this.#flow.blockAt(at);
    if (block === undefined) return nothingDead;
    const { instructions } = block;
    let live = 0;
    let known = this.#pinned;
    // Forwards until all is decided, which is mostly soon: the rest of the block and what follows are then not looked at.
    for (let i = instructions.findIndex(({ address }) => address === at); i < instructions.length; i++) {
      const { reads, writes } = effectOf(instructions[i] as Instruction);
      live |= reads & ~known;
      known |= reads | writes;
      if (known === everything) return this.#dead(live);
    }
    return this.#dead(live | (this.#liveOut(this.#indexOf(block.start)) & ~known));
  }

  #dead(live: Bits): Dead {
    const dead = ~(live | this.#pinned);
    return { registers: dead & allRegisters, flags: (dead >> flagShift) & arithmeticFlags };
  }

  #indexOf(start: Address): number {
    return this.#index.get(start) ?? -1;
  }

  #liveOut(index: number): Bits {
    const block = this.#blocks[index];
    if (block === undefined || block.leaves) return everything;
    let live = 0;
    for (const next of block.successors) {
      const successor = this.#indexOf(next);
      if (successor < 0) return everything;
      this.#solve(successor);
      live |= this.#liveIn[successor] as Bits;
    }
    return live;
  }

  /** Finds what is live at the start of a block and of all that it depends on: the least solution, from the bottom up. */
  #solve(first: number): void {
    if (this.#isSolved[first] === 1) return;
    const open: number[] = [];
    const edges = new Map<number, number[]>();
    const isOpen = new Set<number>();
    const work = [first];
    for (let index = work.pop(); index !== undefined; index = work.pop()) {
      if (this.#isSolved[index] === 1 || isOpen.has(index)) continue;
      const block = this.#blocks[index] as BasicBlock;
      this.#summarise(index, block);
      if (this.#isSolved[index] === 1) continue;
      isOpen.add(index);
      open.push(index);
      const successors = block.successors.map((start) => this.#indexOf(start));
      edges.set(index, successors);
      work.push(...successors);
    }
    for (let isChanging = open.length > 0; isChanging; ) {
      isChanging = false;
      for (let i = open.length - 1; i >= 0; i--) {
        const index = open[i] as number;
        let live = 0;
        for (const successor of edges.get(index) ?? []) live |= this.#liveIn[successor] as Bits;
        live = (this.#reads[index] as Bits) | (live & ~(this.#writes[index] as Bits));
        if (live === this.#liveIn[index]) continue;
        this.#liveIn[index] = live;
        isChanging = true;
      }
    }
    for (const index of open) this.#isSolved[index] = 1;
  }

  /** Reads and writes of a whole block. It is solved by that alone if nothing is left for its successors to decide. */
  #summarise(index: number, block: BasicBlock): void {
    let reads = 0;
    let writes = 0;
    for (const instruction of block.instructions) {
      const effect = effectOf(instruction);
      reads |= effect.reads & ~writes;
      writes |= effect.writes;
      if ((reads | writes | this.#pinned) === everything) break;
    }
    const isLast = block.leaves || block.successors.some((start) => this.#indexOf(start) < 0);
    if (isLast) reads |= everything & ~writes;
    this.#reads[index] = reads;
    this.#writes[index] = writes;
    this.#liveIn[index] = reads;
    if ((reads | writes | this.#pinned) === everything) this.#isSolved[index] = 1;
  }
}

/** What an instruction reads, and what it replaces whole and on every execution. */
function effectOf(instruction: Instruction): { reads: Bits; writes: Bits } {
  switch (instruction.problem === undefined ? instruction.flow : 'trap') {
    case 'next':
    case 'jump':
    case 'conditional-jump':
    case 'loop':
    case 'indirect-jump':
    case 'xbegin': {
      const { reads, writes, flagsRead, flagsWritten } = accessOf(instruction);
      return { reads: bitsOf(reads, flagsRead), writes: bitsOf(writes, flagsWritten) };
    }
    default:
      return { reads: everything, writes: 0 };
  }
}
