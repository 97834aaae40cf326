// Control flow of one function: its instructions, basic blocks, and where a jump can land.

import { type Address, address, offsetBy } from '../address.js';
import { invariant } from '../errors.js';
import { decode, decodeOne } from './decode.js';
import { type JumpTable, type ReadConstant, recogniseJumpTable } from './flow/jump-table.js';
import { Predecessors } from './flow/predecessors.js';
import { endOf, fallsThrough, type Instruction, prefixesOf } from './instruction.js';

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

/** Whether a jump can land on an address. `unknown` whenever there is a jump in the function whose targets are not known. */
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
   * that the caller named. Any address may be asked for, also one inside an instruction.
   */
  canBeJumpedTo(at: Address): JumpAnswer {
    if (this.#targets.has(at)) return 'yes';
    if (at < this.start || at >= this.end) return 'unknown';
    return this.#isUnclear ? 'unknown' : 'no';
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
  const indirect = resolveIndirect({ seen, targets, open, byAddress, isInside, options });
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
    hasProblem: [...seen].some((instruction) => instruction.problem !== undefined),
  });
}

interface IndirectInput {
  readonly seen: ReadonlySet<Instruction>;
  /** Grows by the targets of tables. */
  readonly targets: Set<Address>;
  /** Where control comes in from elsewhere. */
  readonly open: ReadonlySet<Address>;
  readonly byAddress: ReadonlyMap<Address, Instruction>;
  readonly isInside: (at: Address) => boolean;
  readonly options: FlowOptions;
}

/**
 * Finds the tables of indirect jumps. What a table leads to may lie between another's bound check and its jump (a switch in
 * a loop), so all tables are read again with the edges of the last round until no new edge turns up. Only then is each proved
 * against all edges.
 */
function resolveIndirect({ seen, targets, open, byAddress, isInside, options }: IndirectInput): {
  tables: ReadonlyMap<Address, JumpTable>;
  unresolved: Instruction[];
} {
  const isImport = ({ ripOperand }: Instruction) =>
    ripOperand !== undefined && options.isImportSlot?.(ripOperand.target) === true;
  const isGood = (at: Address) => (isInside(at) ? byAddress.has(at) : options.isCode?.(at) === true);
  const jumps = [...seen].filter((jump) => jump.flow === 'far' || (jump.flow === 'indirect-jump' && !isImport(jump)));
  const edges = new Map<Address, readonly Address[]>();
  let tables = new Map<Address, JumpTable>();
  for (let isNew = jumps.length > 0; isNew; ) {
    isNew = false;
    const before = new Predecessors(seen, open, edges);
    tables = new Map();
    for (const jump of jumps) {
      const table = jump.flow === 'far' ? undefined : recogniseJumpTable(jump, before, options.read);
      // An entry inside an instruction or out in the data means that the table was misread: then nothing is known.
      if (table === undefined || !table.targets.every(isGood)) continue;
      tables.set(jump.address, table);
      const known = new Set(edges.get(jump.address));
      const size = known.size;
      for (const target of table.targets) {
        known.add(target);
        if (isInside(target)) targets.add(target);
      }
      if (known.size === size) continue;
      edges.set(jump.address, [...known]);
      isNew = true;
    }
  }
  return { tables, unresolved: jumps.filter(({ address }) => !tables.has(address)) };
}

/**
 * All instructions of the linear sweep, and those that jumps reach at other places: glibc jumps past a lock prefix, and data in
 * code can put the sweep out of step.
 */
function followJumps(
  bytes: Uint8Array,
  start: Address,
  byAddress: ReadonlyMap<Address, Instruction>,
  entries: readonly Address[],
): Set<Instruction> {
  const found = new Set(byAddress.values());
  const offStep = new Map<Address, Instruction>();
  const work = [...entries, ...[...found].flatMap(directTargets)];
  for (let at = work.pop(); at !== undefined; at = work.pop()) {
    const offset = Number(at - start);
    if (offset < 0 || offset >= bytes.length || byAddress.has(at) || offStep.has(at)) continue;
    const instruction = decodeOne(bytes.subarray(offset), at);
    invariant(instruction !== undefined, 'a byte inside the function decodes to something');
    offStep.set(at, instruction);
    found.add(instruction);
    work.push(...directTargets(instruction));
    if (fallsThrough(instruction)) work.push(endOf(instruction));
  }
  return found;
}

/** Where an instruction sends control by itself: its target, the return from a call, and code whose address it takes. */
function directTargets(instruction: Instruction): Address[] {
  const targets = addressesTaken(instruction);
  if (instruction.target !== undefined) targets.push(instruction.target);
  if (instruction.flow === 'call' || instruction.flow === 'indirect-call') targets.push(endOf(instruction));
  return targets;
}

/**
 * Addresses that an instruction hands on, so that anyone may come there: a lea (computed goto, a callback in the middle of
 * assembly), an absolute immediate of code at a fixed place, and the target of a call.
 */
function addressesTaken(instruction: Instruction): Address[] {
  if (instruction.flow === 'call' && instruction.target !== undefined) return [instruction.target];
  if (instruction.flow !== 'next') return [];
  if (instruction.ripOperand !== undefined) return [instruction.ripOperand.target];
  // mov r, imm32; mov r, imm64; mov r/m, imm32; push imm32. Only positive ones can be addresses.
  const { bytes, length } = instruction;
  if (length < 5 || (bytes[length - 1] as number) >= 0x80) return [];
  const { opcodeOffset } = prefixesOf(bytes);
  const opcode = bytes[opcodeOffset] as number;
  if (opcode >> 3 !== 0xb8 >> 3 && opcode !== 0xc7 && opcode !== 0x68) return [];
  const size = opcode >> 3 === 0xb8 >> 3 && length - opcodeOffset === 9 ? 8 : 4;
  if (length - opcodeOffset <= size) return [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  const at = length - size;
  return [address(size === 8 ? view.getBigUint64(at, true) : view.getUint32(at, true))];
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
