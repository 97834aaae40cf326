// Making registers free for code that is put between two instructions of the target, and giving them back unchanged.

import { FastprobeError, invariant } from '../errors.js';
import { type Emitter, mem } from '../isa/emit.js';
import type { Dead } from '../isa/liveness.js';
import {
  arithmeticFlags,
  hasRegister,
  type Register,
  type RegisterSet,
  rax,
  registerSet,
  registersIn,
  rsp,
} from '../isa/registers.js';

/** The System V ABI lets a function use this much below the stack pointer without saying so. */
const redZone = 128;

/** In the order in which registers are taken when none is dead: those with short encodings first, rbp last. */
const preference: readonly Register[] = [0, 1, 2, 6, 7, 8, 9, 10, 11, 3, 12, 13, 14, 15, 5];

/** Where the target's value of a register is while our code runs: in a register still, or saved on the stack. */
export type Home = Register | { readonly stackOffset: number };

/** What the code inside the frame wants. */
export interface Needs {
  /** How many registers it overwrites, the fixed ones included. */
  readonly registers: number;
  /** Registers that it overwrites whatever is in them (division, shifts, rdtsc). */
  readonly fixed?: RegisterSet;
  /** Registers that it reads as the target left them, and so can't have as its own. */
  readonly reads?: RegisterSet;
}

/** Where the flags are: nowhere (they are dead, or the outer frame has them), in ax, or in a slot of the stack. */
type FlagsPlace = 'none' | 'ax' | { readonly slot: number };

/**
 * Free registers and flags, for as long as code inside runs. What is dead at the site is taken as it is; the rest is saved
 * below the red zone. Flags are kept in ax by lahf and seto: a popf costs more than all the rest together.
 *
 * `enter` and `leave` emit the code around; a frame may be entered inside another.
 */
export class Frame {
  /** The registers that the code inside may overwrite, dead ones first. */
  readonly scratch: readonly Register[];
  /** How far the stack pointer is below the target's own. */
  readonly stackDepth: number;
  readonly #outer: Frame | undefined;
  /** What `enter` saves on the stack, in the order of the slots. */
  readonly #saved: readonly Register[];
  readonly #flags: FlagsPlace;
  /** A dead register that keeps rax while the flags are there. */
  readonly #raxKeeper: Register | undefined;
  readonly #size: number;

  constructor(dead: Dead, needs: Needs, outer?: Frame) {
    this.#outer = outer;
    const fixed = needs.fixed ?? 0;
    const reads = needs.reads ?? 0;
    // A variable may be in a register that the program itself will not read again: the expression still does.
    const isFree = ((dead.registers & ~reads) | (outer?.free ?? 0)) & ~(outer?.reserved ?? 0);
    const unusable = reads | registerSet(rsp);
    invariant(!hasRegister(fixed, rsp), 'the stack pointer is never free');
    const keepsFlags = outer === undefined && (~dead.flags & arithmeticFlags) !== 0;

    const taken: Register[] = registersIn(fixed);
    // With rax free for the flags alone, nobody else should have it.
    const avoid = keepsFlags && !hasRegister(fixed, rax) ? registerSet(rax) : 0;
    const candidates = preference.filter((each) => !hasRegister(unusable | fixed | avoid, each));
    const ordered = [
      ...candidates.filter((each) => hasRegister(isFree, each)),
      ...candidates.filter((each) => !hasRegister(isFree, each)),
    ];
    const wanted = Math.max(needs.registers - taken.length, 0);
    if (wanted > ordered.length) {
      throw new FastprobeError(
        'FASTPROBE_EXPRESSION_UNSUPPORTED',
        'the expression needs more registers than there are',
        {
          hint: 'make the expression simpler, or capture its parts',
        },
      );
    }
    taken.push(...ordered.slice(0, wanted));
    this.scratch = taken;

    const saved = taken.filter((each) => !hasRegister(isFree, each));
    let raxKeeper: Register | undefined;
    let flags: FlagsPlace = 'none';
    if (keepsFlags) {
      if (hasRegister(fixed, rax)) flags = { slot: saved.length };
      else {
        flags = 'ax';
        if (!hasRegister(isFree, rax)) {
          raxKeeper = ordered.slice(wanted).find((each) => hasRegister(isFree, each));
          if (raxKeeper === undefined) saved.push(rax);
        }
      }
    }
    this.#saved = saved;
    this.#flags = flags;
    this.#raxKeeper = raxKeeper;
    const slots = saved.length + (typeof flags === 'object' ? 1 : 0);
    // Inside another frame that has moved the stack pointer the red zone is already behind us.
    const skip = outer !== undefined && outer.stackDepth > 0 ? 0 : redZone;
    this.#size = slots === 0 ? 0 : skip + slots * 8;
    this.stackDepth = this.#size + (outer?.stackDepth ?? 0);
  }

  /** Registers whose target value is saved or dead, so that a frame inside may have them. */
  private get free(): RegisterSet {
    return registerSet(...this.scratch) | (this.#outer?.free ?? 0);
  }

  /** Registers that hold something of this frame's own. */
  private get reserved(): RegisterSet {
    const own = this.#flags === 'ax' ? registerSet(rax) : 0;
    const keeper = this.#raxKeeper === undefined ? 0 : registerSet(this.#raxKeeper);
    return own | keeper | (this.#outer?.reserved ?? 0);
  }

  /** Where the target's value of a register is, inside the frame. */
  home(register: Register): Home {
    const outside = this.#outer?.home(register) ?? register;
    if (typeof outside === 'object') return { stackOffset: outside.stackOffset + this.#size };
    if (outside === rax && this.#raxKeeper !== undefined) return this.#raxKeeper;
    const slot = this.#saved.indexOf(outside);
    return slot < 0 ? outside : { stackOffset: slot * 8 };
  }

  enter(code: Emitter): void {
    if (this.#size > 0) code.lea(rsp, mem({ base: rsp, disp: -this.#size }));
    this.#saved.forEach((register, slot) => {
      code.store(mem({ base: rsp, disp: slot * 8 }), register);
    });
    if (this.#raxKeeper !== undefined) code.mov(this.#raxKeeper, rax);
    if (this.#flags === 'none') return;
    code.saveFlagsToAx();
    if (this.#flags !== 'ax') code.store(mem({ base: rsp, disp: this.#flags.slot * 8 }), rax);
  }

  leave(code: Emitter): void {
    if (this.#flags !== 'none') {
      if (this.#flags !== 'ax') code.load(rax, mem({ base: rsp, disp: this.#flags.slot * 8 }));
      code.restoreFlagsFromAx();
    }
    if (this.#raxKeeper !== undefined) code.mov(rax, this.#raxKeeper);
    this.#saved.forEach((register, slot) => {
      code.load(register, mem({ base: rsp, disp: slot * 8 }));
    });
    if (this.#size > 0) code.lea(rsp, mem({ base: rsp, disp: this.#size }));
  }
}
