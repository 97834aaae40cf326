// What compiled code may rely on and touch: the registers it may overwrite, and where the target's own values are.

import type { Address } from '../../address.js';
import type { Label } from '../../isa/emit.js';
import { type Register, registerSet, rsp } from '../../isa/registers.js';
import type { Span } from '../tree.js';
import { type Value, walk } from '../value.js';

/** What the code around an expression guarantees while it runs. The expression leaves the stack alone. */
export interface Machine {
  /** Registers the code may overwrite, best first. */
  readonly scratch: readonly Register[];
  /** Where the target's value of a register is now: still in a register, or saved at [rsp + stackOffset]. Not asked for rsp. */
  home(register: Register): Register | { readonly stackOffset: number };
  /** The target's own rsp is rsp + stackDepth. */
  readonly stackDepth: number;
  /** Added to the file addresses of globals. */
  readonly loadBias: bigint;
  /** Where execution goes on when a load faults or a division is impossible. */
  readonly onFault: Label;
}

/** An instruction that may fault, for the fault table, and the part of the expression that it loads. */
export interface FaultPoint {
  readonly at: Address;
  readonly end: Address;
  readonly span: Span;
}

/** The target's registers that a value depends on, without rsp. */
export function registersReadBy(value: Value): number {
  let set = 0;
  walk(value, (each) => {
    if (each.op !== 'load' && each.op !== 'address') return;
    const { place } = each;
    if (place.in === 'register') set |= registerSet(place.register);
    else if (place.base.from === 'frame') set |= registerSet(place.base.register);
  });
  return set & ~registerSet(rsp);
}
