// Operands of compiled code: registers that hold values, memory operands for places, and locals kept for their next use.

import { type Address, offsetBy } from '../../address.js';
import { invariant } from '../../errors.js';
import { type Condition, type Emitter, type JumpForm, type Label, type Memory, mem, rip } from '../../isa/emit.js';
import { type Register, rsp } from '../../isa/registers.js';
import type { Span } from '../tree.js';
import { type Load, type MemoryPlace, type Value, walk } from '../value.js';
import type { FaultPoint, Machine } from './machine.js';
import type { Pool } from './pool.js';

/** How the upper half of a register relates to a value of at most 32 bits in the lower. */
export type Upper = 'zero' | 'sign' | 'zero and sign' | 'unknown';

/**
 * A value in a register. One of 64 bits fills it; one of 8 or 16 bits is extended to 32 by its own sign; `upper` tells
 * what is above. What is not owned is the target's or kept for later: it may be read, not written.
 */
export interface Held {
  readonly register: Register;
  readonly isOwned: boolean;
  readonly upper: Upper;
  /** The local that is kept there, if that is what it is. */
  readonly kept?: Kept;
}

/** A memory operand and the registers that its address occupies. */
export interface Reached {
  readonly memory: Memory;
  readonly held: readonly Held[];
  readonly isSafe: boolean;
  readonly span: Span;
}

export interface Plan {
  readonly code: Emitter;
  readonly machine: Machine;
  readonly pool: Pool;
  /** How many registers may be used to keep locals that are read more than once. */
  readonly slots: number;
  /** How jumps inside the expression are encoded; those that leave it are near, since nobody knows how far they go. */
  readonly innerJumps: JumpForm;
  /** True if code can name this address relative to rip. */
  inReach(address: Address): boolean;
}

/** A local that stays in a register until its last use, or until the code leaves the path on which it was loaded. */
interface Kept {
  readonly name: string;
  readonly register: Register;
  readonly upper: Upper;
  /** How many operands that are not used yet refer to it. */
  borrowers: number;
}

/** Names what a load reads, if that is a plain local: loads with one name give one value. */
function nameOf({ place, kind }: Load, machine: Machine): string | undefined {
  const form = kind.width >= 32 ? `${kind.width}` : `${kind.width}${kind.isSigned ? 's' : 'u'}`;
  if (place.in === 'register') {
    const isSaved = place.register !== rsp && typeof machine.home(place.register) === 'object';
    return isSaved ? `saved ${place.register}+${place.offset}:${form}` : undefined;
  }
  const { base, index, offset, isSafe } = place;
  if (base.from !== 'frame' || index !== undefined || !isSafe) return undefined;
  return `frame ${base.register}+${offset}:${form}`;
}

/** The lower half of the compiler: it knows registers and memory, and asks the upper half for computed values. */
export abstract class Operands {
  readonly faults: FaultPoint[] = [];
  protected readonly code: Emitter;
  protected readonly machine: Machine;
  protected readonly pool: Pool;
  private readonly plan: Plan;
  private readonly kept = new Map<string, Kept>();
  private readonly innerLabels = new Set<Label>();
  /** How often each plain local is still to be read. */
  private readonly uses = new Map<string, number>();

  constructor(plan: Plan, value: Value) {
    this.plan = plan;
    this.code = plan.code;
    this.machine = plan.machine;
    this.pool = plan.pool;
    walk(value, (each) => {
      const name = each.op === 'load' ? nameOf(each, this.machine) : undefined;
      if (name !== undefined) this.uses.set(name, (this.uses.get(name) ?? 0) + 1);
    });
  }

  protected abstract evaluate(value: Value): Held;
  protected abstract weight(value: Value): number;

  // --- registers

  protected owned(register: Register, upper: Upper): Held {
    return { register, isOwned: true, upper };
  }

  protected release(...held: readonly Held[]): void {
    for (const each of held) {
      if (each.isOwned) this.pool.give(each.register);
      else if (each.kept !== undefined) {
        each.kept.borrowers--;
        if (this.isDone(each.kept)) this.drop(each.kept);
      }
    }
  }

  private isDone({ name, borrowers }: Kept): boolean {
    return borrowers === 0 && (this.uses.get(name) ?? 0) === 0;
  }

  private drop({ name, register }: Kept): void {
    this.kept.delete(name);
    this.pool.give(register);
  }

  /** The value in a register that may be written. */
  protected own(value: Value): Held {
    const held = this.evaluate(value);
    if (held.isOwned) return held;
    // The last reader of a kept local may have its register.
    if (held.kept?.borrowers === 1 && (this.uses.get(held.kept.name) ?? 0) === 0) {
      this.kept.delete(held.kept.name);
      return this.owned(held.register, held.upper);
    }
    this.release(held);
    const register = this.pool.take();
    const width = value.kind.width === 64 ? 64 : 32;
    this.code.mov(register, held.register, width);
    return this.owned(register, 'zero');
  }

  // --- jumps

  /** A label inside the expression. */
  protected innerLabel(name: string): Label {
    const label = this.code.label(name);
    this.innerLabels.add(label);
    return label;
  }

  protected jump(target: Label): void {
    this.code.jump(target, this.formOf(target));
  }

  protected jumpIf(condition: Condition, target: Label): void {
    this.code.jumpIf(condition, target, this.formOf(target));
  }

  private formOf(target: Label): JumpForm {
    return this.innerLabels.has(target) ? this.plan.innerJumps : 'near';
  }

  // --- memory

  /** Emits an instruction with a memory operand; lists it if it may fault; frees the registers of the address. */
  protected access(reached: Reached, emit: (memory: Memory) => void): void {
    const at = this.code.here;
    emit(reached.memory);
    if (!reached.isSafe) this.faults.push({ at, end: this.code.here, span: reached.span });
    this.release(...reached.held);
  }

  /** True if the value is best used as a memory operand: a load that is not kept in a register, now or for later. */
  protected isDirect(value: Value): value is Load {
    if (value.op !== 'load') return false;
    const { place } = value;
    if (place.in === 'register' && (place.register === rsp || typeof this.machine.home(place.register) === 'number')) {
      return false;
    }
    const name = nameOf(value, this.machine);
    return name === undefined || !(this.kept.has(name) || this.isWorthKeeping(name));
  }

  private isWorthKeeping(name: string): boolean {
    return (this.uses.get(name) ?? 0) > 1 && this.kept.size < this.plan.slots;
  }

  /** The memory operand of a load. To be called once per load, since it counts the uses. */
  protected reachLoad(load: Load): Reached {
    const { place, span } = load;
    const name = nameOf(load, this.machine);
    if (name !== undefined) this.uses.set(name, (this.uses.get(name) ?? 0) - 1);
    if (place.in === 'memory') return this.reach(place, span);
    const home = this.machine.home(place.register);
    invariant(typeof home === 'object', 'a register of the target is not in memory');
    return { memory: mem({ base: rsp, disp: home.stackOffset + place.offset }), held: [], isSafe: true, span };
  }

  protected reach(place: MemoryPlace, span: Span): Reached {
    const { base, index, isSafe } = place;
    if (index === undefined) {
      const { held, memory } = this.reachBase(place);
      return { memory, held: held === undefined ? [] : [held], isSafe, span };
    }
    const isIndexFirst = base.from !== 'pointer' || this.weight(index.value) > this.weight(base.value);
    const early = isIndexFirst ? this.evaluate(index.value) : undefined;
    const from = this.indexable(this.reachBase(place));
    const by = early ?? this.evaluate(index.value);
    const parts = { index: by.register, scale: index.scale, disp: from.disp };
    const memory = mem(from.base === undefined ? parts : { ...parts, base: from.base });
    return { memory, held: [...from.held, by], isSafe, span };
  }

  /** A base with displacement, to which an index can be added: a rip-relative one can't have it. */
  private indexable({ memory, held }: { memory: Memory; held: Held | undefined }): {
    base: Register | undefined;
    disp: number;
    held: readonly Held[];
  } {
    if (!('rip' in memory)) return { base: memory.base, disp: memory.disp, held: held === undefined ? [] : [held] };
    const register = this.pool.take();
    this.code.lea(register, memory);
    return { base: register, disp: 0, held: [this.owned(register, 'unknown')] };
  }

  /** `base + offset`, without the index. */
  private reachBase({ base, offset }: MemoryPlace): { memory: Memory; held: Held | undefined } {
    if (base.from === 'frame') return this.reachFrame(base.register, offset);
    if (base.from === 'file') return this.reachFile(base.address, offset);
    const held = this.evaluate(base.value);
    return { memory: mem({ base: held.register, disp: offset }), held };
  }

  private reachFrame(register: Register, offset: number): { memory: Memory; held: Held | undefined } {
    if (register === rsp)
      return { memory: mem({ base: rsp, disp: this.machine.stackDepth + offset }), held: undefined };
    const home = this.machine.home(register);
    if (typeof home === 'number') return { memory: mem({ base: home, disp: offset }), held: undefined };
    const base = this.pool.take();
    this.code.load(base, mem({ base: rsp, disp: home.stackOffset }));
    return { memory: mem({ base, disp: offset }), held: this.owned(base, 'unknown') };
  }

  private reachFile(address: Address, offset: number): { memory: Memory; held: Held | undefined } {
    const absolute = offsetBy(address, this.machine.loadBias + BigInt(offset));
    if (absolute < 1n << 31n) return { memory: mem({ disp: Number(absolute) }), held: undefined };
    if (this.plan.inReach(absolute)) return { memory: rip(absolute), held: undefined };
    const base = this.pool.take();
    this.code.movImmediate(base, absolute);
    return { memory: mem({ base }), held: this.owned(base, 'unknown') };
  }

  // --- loads

  /** Loads a value from memory or from the target's register; a local that is read again stays in its register. */
  protected load(load: Load): Held {
    const { place, kind } = load;
    if (place.in === 'register') {
      const home = place.register === rsp ? rsp : this.machine.home(place.register);
      if (typeof home === 'number') return this.fromRegister(load, home, place.offset);
    }
    const name = nameOf(load, this.machine);
    const keeps = name !== undefined && !this.kept.has(name) && this.isWorthKeeping(name);
    const known = name === undefined ? undefined : this.reuse(name);
    if (known !== undefined) return known;
    const reached = this.reachLoad(load);
    const register = this.loadTo(reached, kind.isSigned && kind.width < 32 ? 'sign' : 'zero', kind.width);
    const upper: Upper =
      kind.width === 64 ? 'unknown' : kind.width === 32 ? 'zero' : kind.isSigned ? 'sign' : 'zero and sign';
    if (!keeps) return this.owned(register, upper);
    const kept: Kept = { name, register, upper, borrowers: 1 };
    this.kept.set(name, kept);
    return { register, isOwned: false, upper, kept };
  }

  /** Loads and extends to 64 bits. The register may be one that the address used. */
  protected loadTo(reached: Reached, extension: 'zero' | 'sign', width: Load['kind']['width']): Register {
    this.release(...reached.held);
    const to = this.pool.take();
    this.access({ ...reached, held: [] }, (memory) => {
      if (extension === 'sign') this.code.loadSigned(to, memory, width);
      else this.code.load(to, memory, width);
    });
    return to;
  }

  private reuse(name: string): Held | undefined {
    const kept = this.kept.get(name);
    if (kept === undefined) return undefined;
    this.uses.set(name, (this.uses.get(name) ?? 0) - 1);
    kept.borrowers++;
    return { register: kept.register, isOwned: false, upper: kept.upper, kept };
  }

  /** Runs `emit` for code that is not always executed: what it loaded is not there afterwards. */
  protected conditionally(emit: () => void): void {
    const before = new Set(this.kept.keys());
    emit();
    for (const kept of [...this.kept.values()]) {
      if (before.has(kept.name)) continue;
      invariant(kept.borrowers === 0, `the local in register ${kept.register} is still in use`);
      this.drop(kept);
    }
  }

  private fromRegister({ kind }: Load, home: Register, offset: number): Held {
    const { code } = this;
    if (home === rsp) {
      const register = this.pool.take();
      code.lea(register, mem({ base: rsp, disp: this.machine.stackDepth }));
      return this.extended(register, kind, this.owned(register, 'unknown'));
    }
    if (offset === 0) {
      const held: Held = { register: home, isOwned: false, upper: 'unknown' };
      if (kind.width >= 32) return held;
      return this.extended(this.pool.take(), kind, held);
    }
    const register = this.pool.take();
    code.mov(register, home);
    code.shift('shr', register, offset * 8);
    return this.extended(register, kind, this.owned(register, 'unknown'));
  }

  /** Extends the low 8 or 16 bits of `from` into `to`; wider values stay as they are. */
  protected extended(to: Register, { width, isSigned }: Load['kind'], from: Held): Held {
    if (width === 64 || width === 32) return from;
    if (isSigned) this.code.signExtend(to, from.register, width);
    else this.code.zeroExtend(to, from.register, width);
    return this.owned(to, isSigned ? 'sign' : 'zero and sign');
  }
}
