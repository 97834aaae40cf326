// Recognising jump tables: only with a proof of where the table is and how far its index goes, on every way to the jump.

import { type Address, address, offsetBy } from '../../address.js';
import { accessOf } from '../access.js';
import type { Instruction } from '../instruction.js';
import { hasRegister, type Register, type RegisterSet, rbp, rbx, registerSet } from '../registers.js';
import type { Predecessors } from './predecessors.js';
import { type Step, SymbolicPath, type Term, type Value } from './symbolic.js';

export interface JumpTable {
  /** The jump that uses it. */
  readonly jump: Address;
  readonly address: Address;
  /** Where its entries lead, each once. */
  readonly targets: readonly Address[];
}

/** Reads constant data as it is in memory: the bytes at an address, or undefined where there are none. */
export type ReadConstant = (at: Address, size: number) => Uint8Array | undefined;

const mostEntries = 8192n;
/** How many instructions a path may have, and how many paths are tried, before giving up. */
const longestPath = 80;
const mostPaths = 60;
const pathsForByte = 6;
/** Registers that a call keeps; System V ABI, figure 3.4. A table's address is often held in one around a loop. */
const keptByCalls: RegisterSet = registerSet(rbx, rbp, 12, 13, 14, 15);

/**
 * The table that `jump` uses. Both shapes are understood however the compiler spreads them out: entries of 4 bytes relative
 * to the table (position-independent code), and entries of 8 bytes that are addresses.
 *
 * The paths to the jump are followed backwards, each until the table's address and an upper bound of the index are known on
 * it. One path without them, or two that name different tables: undefined.
 */
export function recogniseJumpTable(
  jump: Instruction,
  before: Predecessors,
  read: ReadConstant | undefined,
): JumpTable | undefined {
  if (read === undefined) return undefined;
  const search = new Search(jump, before);
  const found = search.run();
  if (found === undefined || found.bound >= mostEntries) return undefined;
  const count = Number(found.bound) + 1;
  const bytes = read(found.table, count * found.size);
  if (bytes === undefined || bytes.length < count * found.size) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const targets = new Set<Address>();
  for (let i = 0; i < count; i++) {
    const target =
      found.size === 8 ? address(view.getBigUint64(i * 8, true)) : offsetBy(found.base, view.getInt32(i * 4, true));
    targets.add(target);
  }
  return { jump: jump.address, address: found.table, targets: [...targets] };
}

interface Found {
  readonly table: Address;
  readonly base: Address;
  readonly size: 4 | 8;
  /** The largest index. */
  readonly bound: bigint;
  /** False when it comes from the width of the index alone. */
  readonly isCompared: boolean;
}

/** The search for one jump. Gives up for good on the first path that cannot be resolved. */
class Search {
  readonly #jump: Instruction;
  readonly #before: Predecessors;
  readonly #constants = new Map<string, bigint | undefined>();
  #found: Found | undefined;
  /** How many more paths may be looked at. */
  #budget = mostPaths;

  constructor(jump: Instruction, before: Predecessors) {
    this.#jump = jump;
    this.#before = before;
  }

  run(): Found | undefined {
    return this.#follow([], this.#jump) ? this.#found : undefined;
  }

  /** Resolves every path that ends in `path`, whose first instruction is `first`. */
  #follow(path: readonly Step[], first: Instruction): boolean {
    // Straight stretches are added whole, because each look at a path costs a run over it.
    const steps = [...path];
    let start = first;
    for (;;) {
      const ways = this.#before.of(start);
      const [only] = ways.edges;
      if (ways.isOpen || ways.edges.length !== 1 || only === undefined || isBarrier(only.from)) break;
      steps.unshift({ instruction: only.from, taken: only.taken });
      start = only.from;
      if (steps.length > longestPath) break;
    }
    if (--this.#budget < 0) return false;
    const found = this.#evaluate(steps, start);
    if (found === 'never') return false;
    if (found !== 'not-yet' && found.isCompared) return this.#accept(found);
    if (found === 'not-yet') return this.#followAll(steps, start);
    // A byte has 256 values at most; but a table of that size is rare, so a comparison is looked for, not for too long.
    const { sofar, budget } = { sofar: this.#found, budget: this.#budget };
    this.#budget = Math.min(budget, pathsForByte);
    const isBetter = this.#followAll(steps, start);
    this.#budget = budget;
    if (isBetter) return true;
    this.#found = sofar;
    return this.#accept(found);
  }

  #followAll(steps: readonly Step[], start: Instruction): boolean {
    const ways = this.#before.of(start);
    if (ways.isOpen || steps.length > longestPath || ways.edges.some(({ from }) => isBarrier(from))) return false;
    return ways.edges.every(({ from, taken }) => this.#follow([{ instruction: from, taken }, ...steps], from));
  }

  #accept(found: Found): boolean {
    const known = this.#found;
    if (known === undefined) this.#found = found;
    else if (known.table !== found.table || known.base !== found.base || known.size !== found.size) return false;
    else if (found.bound > known.bound) this.#found = found;
    return true;
  }

  #evaluate(steps: readonly Step[], start: Instruction): Found | 'not-yet' | 'never' {
    const path = new SymbolicPath((register) => this.#constantIn(register, start));
    path.run(steps);
    const value = path.targetOf(this.#jump);
    const place = value === undefined ? undefined : placeOf(value);
    // With nothing but the jump and a stretch before it, the value may still be made further up.
    if (place === undefined) return value?.kind === 'constant' ? 'never' : 'not-yet';
    const bound = path.boundOf(place.term);
    if (bound !== undefined) return { ...place, bound, isCompared: true };
    return place.term.bits === 8 && !place.term.signed ? { ...place, bound: 255n, isCompared: false } : 'not-yet';
  }

  /** The constant that a register holds before `at`, whichever way control came there. */
  #constantIn(register: Register, at: Instruction): bigint | undefined {
    const key = `${register}@${at.address}`;
    if (!this.#constants.has(key)) this.#constants.set(key, constantBefore(register, at, this.#before));
    return this.#constants.get(key);
  }
}

interface Place extends Omit<Found, 'bound' | 'isCompared'> {
  readonly term: Term;
}

function placeOf(value: Value): Place | undefined {
  if (value.kind === 'target') {
    return { table: address(value.table), base: address(value.base), size: 4, term: value.term };
  }
  if (value.kind !== 'entry' || value.size !== 8) return undefined;
  return { table: address(value.table), base: address(value.table), size: 8, term: value.term };
}

/** What a path is not followed through: control comes back from somewhere else, with other values. */
function isBarrier({ flow, problem }: Instruction): boolean {
  return problem !== undefined || (flow !== 'next' && flow !== 'jump' && flow !== 'conditional-jump');
}

/** The constant in a register when every definition that reaches `at` loads the same one. */
function constantBefore(register: Register, at: Instruction, before: Predecessors): bigint | undefined {
  const seen = new Set<Instruction>();
  const work = [at];
  let constant: bigint | undefined;
  for (let next = work.pop(); next !== undefined; next = work.pop()) {
    const ways = before.of(next);
    if (ways.isOpen) return undefined;
    for (const { from } of ways.edges) {
      if (seen.has(from)) continue;
      seen.add(from);
      const isCall = from.flow === 'call' || from.flow === 'indirect-call';
      if (from.problem !== undefined || (isCall && !hasRegister(keptByCalls, register))) return undefined;
      if (!hasRegister(accessOf(from).changes, register)) {
        work.push(from);
        continue;
      }
      if (from.mnemonic !== 'lea' || from.ripOperand === undefined) return undefined;
      if (constant !== undefined && constant !== from.ripOperand.target) return undefined;
      constant = from.ripOperand.target;
    }
  }
  return constant;
}
