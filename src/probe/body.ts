// What a probe does at its site: the machine code of its condition and its action.

import { type Address, offsetBy } from '../address.js';
import { counterOffset } from '../channel/channel.js';
import { header, ring } from '../channel/layout.js';
import { type Emitter, type Label, mem, rip } from '../isa/emit.js';
import { type Register, type RegisterSet, rax, rcx, rdx, registerSet, registersIn } from '../isa/registers.js';
import type { Typed } from '../lang/check.js';
import {
  compileCondition,
  compileValue,
  type FaultPoint,
  fixedRegisters,
  type Machine,
  registersRead,
  scratchNeeded,
  scratchWanted,
} from '../lang/compile.js';
import { Frame } from '../patch/frame.js';
import type { SiteCode } from '../patch/site-code.js';

/** How a trampoline learns the number of its thread. */
export type ThreadNumber =
  /** From the C library's record of the thread, at this offset from the thread pointer. */
  { readonly from: 'thread-pointer'; readonly offset: number } | { readonly from: 'system-call' };

export interface BodyPlan {
  readonly probe: number;
  readonly condition: Typed | undefined;
  /** What each hit records, with undefined for what is not to be had at this site; none at all when hits are only counted. */
  readonly captures: readonly (Typed | undefined)[] | undefined;
  /** Where the trampoline sees the channel. */
  readonly channel: Address;
  readonly loadBias: bigint;
  readonly threadNumber: ThreadNumber;
}

/** An instruction of the body that may fault, and where it goes on then. */
export interface FaultExit {
  readonly at: Address;
  readonly to: Label;
  readonly expression: string;
}

/** Emits the body. Cheap first: what happens when the condition does not hold needs as few registers as can be. */
export function emitBody(code: Emitter, site: SiteCode, plan: BodyPlan) {
  return new BodyEmitter(code, site, plan).emit();
}

class BodyEmitter {
  readonly #code: Emitter;
  readonly #site: SiteCode;
  readonly #plan: BodyPlan;
  readonly #faults: FaultExit[] = [];
  /** Emitted behind everything else: what seldom runs. */
  readonly #cold: (() => void)[] = [];

  constructor(code: Emitter, site: SiteCode, plan: BodyPlan) {
    this.#code = code;
    this.#site = site;
    this.#plan = plan;
  }

  emit(): { facts: FaultExit[]; emitColdPart: () => void } {
    const { condition, captures } = this.#plan;
    const code = this.#code;
    const leave = code.label('leave');
    const frame = this.#conditionFrame();
    frame.enter(code);
    if (condition !== undefined) this.#emitCondition(condition, frame, leave);
    if (captures === undefined) code.lockInc(this.#counter('hits'));
    else this.#emitRecord(captures, frame);
    code.bind(leave);
    frame.leave(code);
    return {
      facts: this.#faults,
      emitColdPart: () => {
        for (const emit of this.#cold) emit();
      },
    };
  }

  #counter(field: Parameters<typeof counterOffset>[1]) {
    return rip(offsetBy(this.#plan.channel, counterOffset(this.#plan.probe, field)));
  }

  /** Registers of the target that any expression reads: not to be overwritten before all have been. */
  get #reads(): RegisterSet {
    const all = [this.#plan.condition, ...(this.#plan.captures ?? [])];
    return all.reduce((set, each) => set | (each === undefined ? 0 : registersRead(each)), 0);
  }

  #conditionFrame(): Frame {
    const { dead } = this.#site;
    const reads = this.#reads;
    const typed = this.#plan.condition;
    if (typed === undefined) return new Frame(dead, { registers: 0 });
    const fixed = fixedRegisters(typed);
    const saved = fixed & reads;
    const needed = scratchNeeded(typed, { as: 'condition', saved });
    // More than it needs only if they cost nothing.
    const free = registersIn((dead.registers & ~reads) | fixed).length;
    return new Frame(dead, {
      registers: Math.max(needed, Math.min(scratchWanted(typed, { as: 'condition', saved }), free)),
      fixed,
      reads,
    });
  }

  #machine(frame: Frame, scratch: readonly Register[], onFault: Label): Machine {
    return {
      scratch,
      home: (register) => frame.home(register),
      stackDepth: frame.stackDepth,
      loadBias: this.#plan.loadBias,
      onFault,
    };
  }

  #noteFaults(points: readonly FaultPoint[], { text }: Typed, to: Label): void {
    for (const { at, span } of points) {
      this.#faults.push({ at, to, expression: text.slice(span.start, span.end) });
    }
  }

  #emitCondition(condition: Typed, frame: Frame, leave: Label): void {
    const code = this.#code;
    const faulted = code.label('faulted');
    const points = compileCondition(code, condition, this.#machine(frame, frame.scratch, faulted), leave);
    this.#noteFaults(points, condition, faulted);
    this.#cold.push(() => {
      code.bind(faulted);
      code.lockInc(this.#counter('faults'));
      code.jump(leave);
    });
  }

  /** Counts the hit and, unless there have been enough or the ring is full, records it; see src/channel/layout.ts. */
  #emitRecord(captures: readonly (Typed | undefined)[], outer: Frame): void {
    const code = this.#code;
    const { channel, probe } = this.#plan;
    const bySystemCall = this.#plan.threadNumber.from === 'system-call';
    const present = captures.filter((capture) => capture !== undefined);
    const fixed = present.reduce(
      (set, capture) => set | fixedRegisters(capture),
      registerSet(rax, rdx, ...(bySystemCall ? ([rcx, 11] as const) : [])),
    );
    const reads = present.reduce((set, capture) => set | registersRead(capture), 0);
    const most = present.reduce(
      (count, capture) => Math.max(count, scratchNeeded(capture, { as: 'value', saved: reads })),
      1,
    );
    const frame = new Frame(
      this.#site.dead,
      { registers: Math.max(most, registersIn(fixed).length) + 2, fixed, reads },
      outer,
    );
    const movable = frame.scratch.filter((each) => (fixed & registerSet(each)) === 0);
    const [turn, slot] = movable.slice(-2) as [Register, Register];
    const scratch = frame.scratch.filter((each) => each !== turn && each !== slot);
    const retry = code.label('retry');
    const notFree = code.label('not free');
    const done = code.label('done');

    frame.enter(code);
    code.movImmediate(rax, 1);
    code.lockXadd(this.#counter('hits'), rax);
    code.aluLoad('cmp', rax, this.#counter('limit'));
    code.jumpIf('ae', done);

    code.bind(retry);
    code.load(rax, rip(offsetBy(channel, header.head)));
    code.mov(turn, rax);
    code.shift('shr', turn, Math.log2(ring.slots));
    code.alu('add', turn, turn);
    code.mov(slot, rax);
    code.aluImmediate('and', slot, ring.slots - 1, 32);
    code.shift('shl', slot, Math.log2(ring.size));
    code.lea(rdx, rip(offsetBy(channel, ring.offset)));
    code.alu('add', slot, rdx);
    code.aluLoad('cmp', turn, mem({ base: slot, disp: ring.turn }));
    code.jumpIf('ne', notFree);
    code.lea(rdx, mem({ base: rax, disp: 1 }));
    code.lockCmpxchg(rip(offsetBy(channel, header.head)), rdx);
    code.jumpIf('ne', retry);

    code.rdtsc();
    code.shift('shl', rdx, 32);
    code.alu('or', rax, rdx);
    code.store(mem({ base: slot, disp: ring.time }), rax);
    // Behind the probe's number, in the upper half, what can't be read here.
    const missing = captures.reduce((bits, capture, index) => bits | (capture === undefined ? 1 << index : 0), 0);
    code.storeImmediate(mem({ base: slot, disp: ring.probe }), probe | (missing << 16), 32);
    this.#emitThreadNumber();
    code.store(mem({ base: slot, disp: ring.tid }), rax, 32);
    captures.forEach((capture, index) => {
      if (capture !== undefined) this.#emitValue(capture, index, frame, scratch, slot);
    });

    code.mov(rax, turn);
    code.lea(rdx, mem({ base: turn, disp: 1 }));
    code.lockCmpxchg(mem({ base: slot, disp: ring.turn }), rdx);
    code.bind(done);
    frame.leave(code);

    this.#cold.push(() => {
      code.bind(notFree);
      // Another thread was faster and has moved the head on, unless the slot still waits to be read.
      code.jumpIf('b', retry);
      code.lockInc(this.#counter('dropped'));
      code.jump(done);
    });
  }

  #emitThreadNumber(): void {
    const code = this.#code;
    const { threadNumber } = this.#plan;
    if (threadNumber.from === 'thread-pointer') {
      code.load(rax, mem({ segment: 'fs', disp: threadNumber.offset }), 32);
      return;
    }
    const getTid = 186;
    code.movImmediate(rax, getTid);
    code.syscall();
  }

  #emitValue(capture: Typed, index: number, frame: Frame, scratch: readonly Register[], slot: Register): void {
    const code = this.#code;
    const faulted = code.label('unreadable');
    const next = code.label('next');
    const [to] = scratch as [Register];
    const points = compileValue(code, capture, this.#machine(frame, scratch, faulted), to);
    code.store(mem({ base: slot, disp: ring.values + index * 8 }), to);
    code.bind(next);
    this.#noteFaults(points, capture, faulted);
    this.#cold.push(() => {
      code.bind(faulted);
      code.lockInc(this.#counter('faults'));
      code.aluMemoryImmediate('or', mem({ base: slot, disp: ring.unreadable }), 1 << index, 16);
      code.jump(next);
    });
  }
}
