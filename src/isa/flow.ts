// Control flow of one function: its instructions, basic blocks, and where a jump can land.

import { type Address, offsetBy } from '../address.js';
import { decode } from './decode.js';
import { resolveIndirect } from './flow/indirect.js';
import type { JumpTable, ReadConstant } from './flow/jump-table.js';
import { addressesTaken, directTargets, followJumps } from './flow/targets.js';
import { endOf, fallsThrough, type Instruction } from './instruction.js';

export type { JumpTable, ReadConstant } from './flow/jump-table.js';

/** What the caller knows beyond the function's bytes. All of it can only make answers better. */
export interface FlowOptions {
  /**
   * Addresses inside the function that are entered from elsewhere: symbols, exception landing pads, jumps back from a cold
   * part. The answer "no" is as good as this list.
   */
  readonly entries?: readonly Address[];
  /** Exception landing pads. They count as entries too. */
  readonly landingPads?: readonly Address[];
  /**
   * Reads constant data, for jump tables: the bytes at an address, or undefined. They must be as they are in memory (after
   * relocation), and undefined where the program may write to them.
   */
  readonly read?: ReadConstant;
  /** True where code is. A jump table that leads out of the function (to its cold part) is believed only with this. */
  readonly isCode?: (at: Address) => boolean;
  /** True for a slot of the import table (GOT): a jump through it leaves the function. */
  readonly isImportSlot?: (at: Address) => boolean;
}

/** Instructions that run one after the other, entered only at the first and left only at the last. */
export interface BasicBlock {
  readonly start: Address;
  readonly instructions: readonly Instruction[];
  /** Starts of the blocks in the same function that may run next. After a call, the block behind it. */
  readonly successors: readonly Address[];
  /** Control can also go where nobody looked: out of the function, or through an unresolved jump. */
  readonly leaves: boolean;
}

/** Whether control can come to an address other than from the instruction before it. */
export type JumpAnswer = 'yes' | 'no' | 'unknown';

/** The analysed function. Immutable once made. */
export class FunctionFlow {
  readonly start: Address;
  readonly end: Address;
  /** In the order of their addresses, as a linear sweep finds them. */
  readonly instructions: readonly Instruction[];
  readonly blocks: readonly BasicBlock[];
  /** Jumps through registers or memory whose targets are not known. */
  readonly unresolved: readonly Instruction[];
  readonly jumpTables: readonly JumpTable[];
  readonly landingPads: readonly Address[];
  /** Direct targets outside the function: callees, tail calls, the cold part. */
  readonly outsideTargets: ReadonlySet<Address>;
  readonly #targets: ReadonlySet<Address>;
  readonly #isUnclear: boolean;
  readonly #orphans: ReadonlySet<Address>;
  readonly #byAddress: ReadonlyMap<Address, Instruction>;
  readonly #blockOf = new Map<Address, BasicBlock>();

  constructor(facts: FlowFacts) {
    this.start = facts.start;
    this.end = facts.end;
    this.instructions = facts.instructions;
    this.unresolved = facts.unresolved;
    this.jumpTables = [...facts.tables.values()];
    this.landingPads = facts.landingPads;
    this.outsideTargets = facts.outsideTargets;
    this.#targets = facts.targets;
    this.#byAddress = facts.byAddress;
    this.#orphans = facts.orphans;
    this.#isUnclear = facts.unresolved.length > 0 || facts.hasProblem;
    this.blocks = blocksOf(facts);
    for (const block of this.blocks) {
      for (const instruction of block.instructions) this.#blockOf.set(instruction.address, block);
    }
  }

  /** True when some jump or some bytes are not understood, so that no address can be ruled out as a target. */
  get isUnclear(): boolean {
    return this.#isUnclear;
  }

  /** The instruction that starts at an address, or undefined. */
  instructionAt(at: Address): Instruction | undefined {
    return this.#byAddress.get(at);
  }

  /** The block that an instruction belongs to, or undefined where no instruction starts. */
  blockAt(at: Address): BasicBlock | undefined {
    return this.#blockOf.get(at);
  }

  /**
   * Whether control can come to `at` other than from the instruction before it: by a jump, a return from a call, or an entry
   * that the caller named. Any address may be asked for, also one inside an instruction. Code that nothing leads to is there
   * for someone (a landing pad that the caller did not name): `unknown`.
   */
  canBeJumpedTo(at: Address): JumpAnswer {
    if (this.#targets.has(at)) return 'yes';
    if (at < this.start || at >= this.end) return 'unknown';
    return this.#isUnclear || this.#orphans.has(at) ? 'unknown' : 'no';
  }
}

interface FlowFacts {
  readonly start: Address;
  readonly end: Address;
  readonly instructions: readonly Instruction[];
  readonly byAddress: ReadonlyMap<Address, Instruction>;
  readonly targets: ReadonlySet<Address>;
  readonly outsideTargets: ReadonlySet<Address>;
  readonly unresolved: readonly Instruction[];
  readonly tables: ReadonlyMap<Address, JumpTable>;
  readonly orphans: ReadonlySet<Address>;
  readonly landingPads: readonly Address[];
  readonly hasProblem: boolean;
}

/** Analyses the function whose whole code is `bytes`, at `start`. Needs `loadDecoder()` first. */
export function analyseFlow(bytes: Uint8Array, start: Address, options: FlowOptions = {}): FunctionFlow {
  const end = offsetBy(start, bytes.length);
  const isInside = (at: Address) => at >= start && at < end;
  const linear = decode(bytes, start);
  const byAddress = new Map(linear.map((instruction) => [instruction.address, instruction]));
  const landingPads = (options.landingPads ?? []).filter(isInside);
  const open = new Set([start, ...(options.entries ?? []).filter(isInside), ...landingPads]);

  const seen = followJumps(bytes, start, byAddress, [...open]);
  const targets = new Set(open);
  const outsideTargets = new Set<Address>();
  for (const instruction of seen) {
    for (const target of directTargets(instruction)) if (isInside(target)) targets.add(target);
    if (instruction.target !== undefined && !isInside(instruction.target)) outsideTargets.add(instruction.target);
    for (const taken of addressesTaken(instruction)) if (isInside(taken)) open.add(taken);
  }
  const indirect = resolveIndirect({ seen, linear, targets, open, byAddress, isInside, options });
  for (const table of indirect.tables.values()) {
    for (const target of table.targets) if (!isInside(target)) outsideTargets.add(target);
  }
  return new FunctionFlow({
    start,
    end,
    instructions: linear,
    byAddress,
    targets,
    outsideTargets,
    landingPads,
    unresolved: indirect.unresolved,
    tables: indirect.tables,
    orphans: indirect.orphans,
    hasProblem: [...seen].some((instruction) => instruction.problem !== undefined),
  });
}

function blocksOf(facts: FlowFacts): BasicBlock[] {
  const { instructions, targets, byAddress } = facts;
  const isUnclear = facts.unresolved.length > 0 || facts.hasProblem;
  const blocks: BasicBlock[] = [];
  let current: Instruction[] = [];
  const isBranch = (instruction: Instruction) => instruction.flow !== 'next' && instruction.flow !== 'syscall';
  for (const instruction of instructions) {
    current.push(instruction);
    const next = endOf(instruction);
    if (!isBranch(instruction) && !targets.has(next) && next !== facts.end) continue;
    const successors = new Set<Address>();
    let leaves = instruction.problem !== undefined;
    const goTo = (at: Address) => {
      if (byAddress.has(at)) successors.add(at);
      else leaves = true;
    };
    if (instruction.target !== undefined && instruction.flow !== 'call') goTo(instruction.target);
    for (const target of facts.tables.get(instruction.address)?.targets ?? []) goTo(target);
    if (fallsThrough(instruction)) goTo(next);
    const { flow } = instruction;
    if (flow === 'return' || flow === 'trap' || flow === 'far') leaves = true;
    // With an unknown jump in the function, who knows whether the bound checks of the tables are passed by.
    if (flow === 'indirect-jump' && (isUnclear || !facts.tables.has(instruction.address))) leaves = true;
    blocks.push({
      start: (current[0] as Instruction).address,
      instructions: current,
      successors: [...successors],
      leaves,
    });
    current = [];
  }
  return blocks;
}
