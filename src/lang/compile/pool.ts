// The registers that are free while code is made for an expression.

import { invariant } from '../../errors.js';
import type { Register } from '../../isa/registers.js';

/** Gives out registers, best first, and remembers how many were out at once. */
export class Pool {
  private readonly order: readonly Register[];
  private readonly taken = new Set<Register>();
  private highest = 0;

  constructor(order: readonly Register[]) {
    this.order = order;
  }

  /** The largest number of registers that were taken at the same time. */
  get most(): number {
    return this.highest;
  }

  get size(): number {
    return this.order.length;
  }

  take(): Register {
    const free = this.order.find((register) => !this.taken.has(register));
    if (free === undefined) throw new PoolEmpty();
    return this.claim(free);
  }

  /** Takes this very register, which must be free. */
  claim(register: Register): Register {
    invariant(!this.taken.has(register), `register ${register} is taken twice`);
    this.taken.add(register);
    this.highest = Math.max(this.highest, this.taken.size);
    return register;
  }

  give(register: Register): void {
    invariant(this.taken.delete(register), `register ${register} is given back but was not taken`);
  }
}

/** More registers are needed than there are. Turned into an error with a reason where it is caught. */
export class PoolEmpty extends Error {}
