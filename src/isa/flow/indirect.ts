// The jumps of a function whose targets are not in the instruction: which are tables, which are unknown.

import type { Address } from '../../address.js';
import type { FlowOptions } from '../flow.js';
import { fallsThrough, type Instruction, prefixesOf } from '../instruction.js';
import { type JumpTable, recogniseJumpTable } from './jump-table.js';
import { Predecessors } from './predecessors.js';

export interface IndirectInput {
  /** All instructions, also those off the linear sweep. */
  readonly seen: ReadonlySet<Instruction>;
  readonly linear: readonly Instruction[];
  /** Grows by the targets of tables. */
  readonly targets: Set<Address>;
  /** Where control comes in from elsewhere. */
  readonly open: ReadonlySet<Address>;
  readonly byAddress: ReadonlyMap<Address, Instruction>;
  readonly isInside: (at: Address) => boolean;
  readonly options: Pick<FlowOptions, 'read' | 'isCode' | 'isImportSlot'>;
}

export interface Indirect {
  /** By the address of the jump. */
  readonly tables: ReadonlyMap<Address, JumpTable>;
  readonly unresolved: readonly Instruction[];
  /** Code that nothing leads to. */
  readonly orphans: ReadonlySet<Address>;
}

/**
 * Finds the tables of indirect jumps. What a table leads to may lie between another's bound check and its jump (a switch in
 * a loop), so all tables are read again with the edges of the last round until no new edge turns up. Only then is each proved
 * against all edges. Code that is still an orphan then is entered in a way that nobody knows, and the tables have to stand
 * that too.
 */
export function resolveIndirect(input: IndirectInput): Indirect {
  const { seen, linear, targets, open, byAddress, isInside, options } = input;
  const isImport = ({ ripOperand }: Instruction) =>
    ripOperand !== undefined && options.isImportSlot?.(ripOperand.target) === true;
  const isGood = (at: Address) => (isInside(at) ? byAddress.has(at) : options.isCode?.(at) === true);
  const jumps = [...seen].filter((jump) => jump.flow === 'far' || (jump.flow === 'indirect-jump' && !isImport(jump)));
  const edges = new Map<Address, readonly Address[]>();
  let tables = new Map<Address, JumpTable>();
  let orphans = orphansOf(linear, targets);
  let isLast = jumps.length === 0;
  for (let isNew = jumps.length > 0; isNew; ) {
    isNew = false;
    const before = new Predecessors(seen, isLast ? new Set([...open, ...orphans]) : open, edges);
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
    orphans = orphansOf(linear, targets);
    if (isNew || isLast) continue;
    isLast = true;
    isNew = orphans.size > 0;
  }
  return { tables, orphans, unresolved: jumps.filter(({ address }) => !tables.has(address)) };
}

/** Instructions after one that does not run on, up to the first that does something, if none of them is a target. */
function orphansOf(linear: readonly Instruction[], targets: ReadonlySet<Address>): Set<Address> {
  const orphans = new Set<Address>();
  for (let i = 0; i + 1 < linear.length; i++) {
    const instruction = linear[i] as Instruction;
    if (fallsThrough(instruction) && instruction.flow !== 'trap') continue;
    const stretch: Address[] = [];
    for (let j = i + 1; j < linear.length; j++) {
      const next = linear[j] as Instruction;
      if (targets.has(next.address)) break;
      stretch.push(next.address);
      if (isPadding(next)) continue;
      for (const orphan of stretch) orphans.add(orphan);
      break;
    }
  }
  return orphans;
}

/** The no-ops and breakpoints that fill the room before an aligned address. */
function isPadding({ bytes }: Instruction): boolean {
  const { opcodeOffset, repeat } = prefixesOf(bytes);
  const opcode = bytes[opcodeOffset];
  return opcode === 0xcc || (opcode === 0x90 && repeat === 0) || (opcode === 0x0f && bytes[opcodeOffset + 1] === 0x1f);
}
