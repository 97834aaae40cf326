// Operands of emitted instructions: memory, labels, conditions.

import { type Address, formatAddress } from '../../address.js';
import { invariant } from '../../errors.js';
import { type Register, registerName, rsp } from '../registers.js';

/** A place in the code being emitted. Made by `Emitter.label()`, placed by `Emitter.bind()`; may be used before it is placed. */
export class Label {
  /** Bytes from the start of the code; undefined until bound. */
  offset: number | undefined;
  /** For messages only. */
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** `[base + index * scale + displacement]`, optionally in the fs or gs segment. Without base and index: absolute, 32 bits, signed. */
export interface BasedMemory {
  readonly base: Register | undefined;
  readonly index: Register | undefined;
  readonly scale: 1 | 2 | 4 | 8;
  readonly disp: number;
  readonly segment: 'fs' | 'gs' | undefined;
}

/** `[rip + …]`, aimed at an address in the target or at a label (plus `offset`) in the code being emitted. */
export interface RipMemory {
  readonly rip: Address | Label;
  readonly offset: number;
}

export type Memory = BasedMemory | RipMemory;

/** A memory operand: `mem({ base: rsp, disp: 8 })`, `mem({ base: rax, index: rcx, scale: 8 })`, `mem({ segment: 'fs', disp: 0x28 })`. */
export function mem(parts: {
  base?: Register;
  index?: Register;
  scale?: 1 | 2 | 4 | 8;
  disp?: number;
  segment?: 'fs' | 'gs';
}): BasedMemory {
  const { base, index, scale = 1, disp = 0, segment } = parts;
  invariant(index !== rsp, 'rsp cannot be an index');
  invariant(disp === (disp | 0), `displacement ${disp} has more than 32 bits`);
  return { base, index, scale, disp, segment };
}

/** A RIP-relative memory operand that names an address in the target or a label. */
export function rip(target: Address | Label, offset = 0): RipMemory {
  return { rip: target, offset };
}

/** `[rbx + rcx*4 + 0x10]`, for people. */
export function formatMemory(memory: Memory): string {
  if ('rip' in memory) {
    const { rip: target, offset } = memory;
    const name = target instanceof Label ? target.name : formatAddress(target);
    return `[rip -> ${name}${offset === 0 ? '' : ` + ${offset}`}]`;
  }
  const terms = [
    ...(memory.base === undefined ? [] : [registerName(memory.base)]),
    ...(memory.index === undefined ? [] : [`${registerName(memory.index)}*${memory.scale}`]),
    ...(memory.disp === 0 ? [] : [`0x${memory.disp.toString(16)}`]),
  ];
  return `${memory.segment === undefined ? '' : `${memory.segment}:`}[${terms.join(' + ')}]`;
}

/** Conditions in the order of their codes in machine code. */
export const conditions = [
  'o',
  'no',
  'b',
  'ae',
  'e',
  'ne',
  'be',
  'a',
  's',
  'ns',
  'p',
  'np',
  'l',
  'ge',
  'le',
  'g',
] as const;

/** `b`, `be`, `a`, `ae` compare unsigned, `l`, `le`, `g`, `ge` signed. */
export type Condition = (typeof conditions)[number];

export function conditionCode(condition: Condition): number {
  return conditions.indexOf(condition);
}

/** The condition that holds exactly when this one does not. */
export function negated(condition: Condition): Condition {
  return conditions[conditionCode(condition) ^ 1] as Condition;
}
