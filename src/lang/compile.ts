// From a checked expression to machine code: as a condition that falls through or jumps, or as a value in a register.

import { type Address, address, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import { Emitter, type JumpForm, type Label, reaches } from '../isa/emit.js';
import {
  formatRegisters,
  hasRegister,
  noRegisters,
  type Register,
  type RegisterSet,
  registers,
  registersIn,
  rsp,
} from '../isa/registers.js';
import type { Typed } from './check.js';
import { Evaluation } from './compile/evaluate.js';
import { fixedRegistersOf } from './compile/fixed.js';
import { type FaultPoint, type Machine, registersReadBy } from './compile/machine.js';
import { Pool, PoolEmpty } from './compile/pool.js';
import { convert } from './fold.js';
import { type Value, walk } from './value.js';

export type { FaultPoint, Machine } from './compile/machine.js';

/** What the number of registers depends on, besides the expression. */
export interface Surroundings {
  /** What will be made of it; a condition may need no register at all. */
  readonly as: 'condition' | 'value';
  /** The registers whose target's value is saved on the stack; none unless given. */
  readonly saved?: RegisterSet;
  /** False if the code will be more than 2 GB away from the program's globals. */
  readonly globalsInReach?: boolean;
}

/** The target's registers that the expression reads, without rsp. As scratch they are of use only when saved. */
export function registersRead(typed: Typed): RegisterSet {
  return registersReadBy(typed.value);
}

/** The registers that the code uses whatever else is free: rax and rdx to divide, rcx to shift by a variable. */
export function fixedRegisters(typed: Typed): RegisterSet {
  return fixedRegistersOf(typed.value);
}

/**
 * How many scratch registers the code can't do without, the fixed ones included, those in {@link registersRead} not counted
 * unless saved. For a value, its result register counts as one of them.
 */
export function scratchNeeded(typed: Typed, surroundings: Surroundings): number {
  return measured(typed, surroundings, false);
}

/** How many scratch registers the code can make use of: with these, a local that is read twice is loaded once. */
export function scratchWanted(typed: Typed, surroundings: Surroundings): number {
  return measured(typed, surroundings, true);
}

/** True if a load may fault: one through a pointer or index that is computed. Divisions are checked by code instead. */
export function mayFault(typed: Typed): boolean {
  let found = false;
  walk(typed.value, (each) => {
    if (each.op === 'load' && each.place.in === 'memory' && !each.place.isSafe) found = true;
  });
  return found;
}

/** Compiles a condition: the code falls through when the expression is true and jumps to `ifFalse` when it is 0. */
export function compileCondition(code: Emitter, typed: Typed, machine: Machine, ifFalse: Label): FaultPoint[] {
  return compile(code, typed, machine, { pool: machine.scratch }, (run, value) => run.condition(value, ifFalse));
}

/** Compiles a value: all 64 bits of `to` become the result, extended as its type says. `to` need not be in scratch. */
export function compileValue(code: Emitter, typed: Typed, machine: Machine, to: Register): FaultPoint[] {
  const order = machine.scratch.includes(to) ? [to, ...machine.scratch.filter((each) => each !== to)] : machine.scratch;
  return compile(code, typed, machine, { pool: order }, (run, value) => run.value(widened(value), to));
}

function widened(value: Value): Value {
  return convert(value, { width: 64, isSigned: value.kind.isSigned });
}

type Emit = (run: Evaluation, value: Value) => void;

/** A jump of 8 bits reaches this far, whatever lies between. */
const shortReach = 127;

/**
 * First to count the registers that are needed, then to measure the code with the others used for locals that are read again,
 * then for good.
 */
function compile(code: Emitter, typed: Typed, machine: Machine, options: { pool: readonly Register[] }, emit: Emit) {
  const { value } = typed;
  const fixed = fixedRegistersOf(value);
  const missing = registersIn(fixed).filter((register) => !machine.scratch.includes(register));
  if (missing.length > 0) throw tooFew(typed, `it needs ${formatRegisters(fixed)} to divide or shift`);
  const inReach = (at: Address) => [0, 1 << 20].every((further) => reaches(offsetBy(code.here, further), at));
  const homes = homesOf(value, machine);
  const order = options.pool.filter((register) => !hasRegister(fixed, register) && !homes.includes(register));
  const attempt = (into: Emitter, slots: number, innerJumps: JumpForm) => {
    const before = into.length;
    const pool = new Pool(order);
    const moved = movedHomes(into, machine, pool, fixed, homes);
    const run = new Evaluation({ code: into, machine: moved, pool, slots, innerJumps, inReach }, value);
    emit(run, value);
    return { faults: run.faults, most: pool.most, length: into.length - before };
  };
  try {
    const { most } = attempt(new Emitter(code.here), 0, 'near');
    const slots = order.length - most;
    const { length } = attempt(new Emitter(code.here), slots, 'near');
    return attempt(code, slots, length <= shortReach ? 'short' : 'near').faults;
  } catch (error) {
    if (!(error instanceof PoolEmpty)) throw error;
    throw tooFew(typed, `${order.length + registersIn(fixed).length} scratch registers are not enough`);
  }
}

/** Where the target's registers that the value reads are, as far as they are in registers. */
function homesOf(value: Value, machine: Machine): Register[] {
  return registersIn(registersReadBy(value))
    .map((register) => machine.home(register))
    .filter((home) => typeof home === 'number');
}

/** Copies what lies in registers that the code will use for division and shifts, and tells where it is then. */
function movedHomes(
  code: Emitter,
  machine: Machine,
  pool: Pool,
  fixed: RegisterSet,
  homes: readonly Register[],
): Machine {
  const moves = new Map<Register, Register>();
  for (const home of new Set(homes)) {
    if (!hasRegister(fixed, home)) continue;
    const to = pool.take();
    code.mov(to, home);
    moves.set(home, to);
  }
  if (moves.size === 0) return machine;
  const home = (register: Register) => {
    const at = machine.home(register);
    return typeof at === 'number' ? (moves.get(at) ?? at) : at;
  };
  const { scratch, stackDepth, loadBias, onFault } = machine;
  return { scratch, home, stackDepth, loadBias, onFault };
}

/** Compiles for a machine with all registers free, and counts. */
function measured(typed: Typed, surroundings: Surroundings, isKeeping: boolean): number {
  const { value } = typed;
  const saved = surroundings.saved ?? noRegisters;
  const fixed = fixedRegistersOf(value);
  const base = address(1n << 40n);
  const code = new Emitter(base);
  const label = code.label();
  const machine: Machine = {
    scratch: registers,
    home: (register) => (hasRegister(saved, register) ? { stackOffset: 8 * register } : register),
    stackDepth: 0,
    // Beyond the reach of 32-bit absolute addresses, so that only rip decides.
    loadBias: base,
    onFault: label,
  };
  const homes = homesOf(value, machine);
  // The target's values are not spared here: it is for the caller to save those it has no room for.
  const order = registers.filter((each) => each !== rsp && !hasRegister(fixed, each));
  const inReach = () => surroundings.globalsInReach !== false;
  const most = (slots: number) => {
    const pool = new Pool(order);
    const moved = movedHomes(code, machine, pool, fixed, homes);
    const run = new Evaluation({ code, machine: moved, pool, slots, innerJumps: 'near', inReach }, value);
    if (surroundings.as === 'condition') run.condition(value, label);
    else run.value(widened(value), order[0] ?? rsp);
    return pool.most;
  };
  try {
    const needed = most(0);
    const wanted = isKeeping ? most(order.length - needed) : 0;
    return Math.max(needed, wanted) + registersIn(fixed).length;
  } catch (error) {
    if (error instanceof PoolEmpty) throw tooFew(typed, 'the processor has too few registers for it');
    throw error;
  }
}

function tooFew(typed: Typed, reason: string): FastprobeError {
  return new FastprobeError('FASTPROBE_EXPRESSION_UNSUPPORTED', `'${typed.text}' can't be compiled here: ${reason}`, {
    hint: 'split it into simpler conditions',
  });
}
