// The ways by which control comes to an instruction of one function.

import type { Address } from '../../address.js';
import { endOf, fallsThrough, type Instruction } from '../instruction.js';

export interface Edge {
  readonly from: Instruction;
  /** False when `from` just runs on. */
  readonly taken: boolean;
}

export interface Ways {
  readonly edges: readonly Edge[];
  /** Control can also come from where nobody looks: a caller, an unwinder, code whose address was taken. */
  readonly isOpen: boolean;
}

/** Built once for a set of jumps; asked by the recogniser of jump tables. */
export class Predecessors {
  readonly #edges = new Map<Address, Edge[]>();
  readonly #open: ReadonlySet<Address>;

  /** `instructions` includes those that are off the linear sweep; `tables` gives the known targets of indirect jumps. */
  constructor(
    instructions: Iterable<Instruction>,
    open: ReadonlySet<Address>,
    tables: ReadonlyMap<Address, readonly Address[]>,
  ) {
    this.#open = open;
    for (const from of instructions) {
      if (fallsThrough(from)) this.#add(endOf(from), { from, taken: false });
      if (from.target !== undefined && from.flow !== 'call') this.#add(from.target, { from, taken: true });
      for (const target of tables.get(from.address) ?? []) this.#add(target, { from, taken: true });
    }
  }

  of({ address }: Instruction): Ways {
    return { edges: this.#edges.get(address) ?? [], isOpen: this.#open.has(address) };
  }

  #add(to: Address, edge: Edge): void {
    const edges = this.#edges.get(to);
    if (edges === undefined) this.#edges.set(to, [edge]);
    else edges.push(edge);
  }
}
