// Moving instructions to a new address so that they do there what they did before.

import { type Address, formatAddress } from '../address.js';
import { invariant } from '../errors.js';
import { accessOf } from './access.js';
import { conditions, Emitter, type Label, negated, reaches, rip } from './emit.js';
import { endOf, fallsThrough, formatInstruction, type Instruction, prefixesOf } from './instruction.js';
import { type RegisterSet, rsp } from './registers.js';
import { operandOf } from './relocate/operand.js';
import { moveRipRelative } from './relocate/rip.js';

/** Why instructions cannot be moved. */
export type UnmovableReason =
  /** A decoder does not know it, or the two disagree. */
  | 'not-understood'
  /** A call returns to its original place, which lies among the moved bytes. */
  | 'call-before-end'
  /** A far call pushes the address of the copy. */
  | 'far-call'
  /** A branch goes into the middle of a moved instruction. */
  | 'jump-into-instruction'
  /** An operand names bytes that are about to be overwritten. */
  | 'refers-to-moved-bytes'
  /** What a RIP-relative operand names is too far away, and no register is free to hold its address. */
  | 'out-of-reach'
  /** A call whose target depends on the stack pointer in a way that a push would change. */
  | 'call-through-stack';

/** A refusal: which instruction, why, and a sentence for people. */
export interface Unmovable {
  readonly kind: 'unmovable';
  readonly reason: UnmovableReason;
  readonly instruction: Instruction;
  readonly message: string;
}

/** What was moved, and what the planner has to know about it. */
export interface Moved {
  readonly kind: 'moved';
  /** New address of every instruction start. */
  readonly map: ReadonlyMap<Address, Address>;
  /** True when control can run out at the end: the caller appends the jump back to the original code. */
  readonly fallsThrough: boolean;
  /** A call was replaced by a push and a jump, which a hardware shadow stack forbids. */
  readonly emulatesCall: boolean;
  /** The kernel may restart a system call at its address minus two: the copy must stay mapped. */
  readonly hasSyscall: boolean;
  /** There is an instruction meant to raise a signal, whose handler will see the address of the copy. */
  readonly hasTrap: boolean;
  /** Up to 136 bytes of stack are used below the stack pointer for a moment. */
  readonly usesStack: boolean;
}

export interface RelocationOptions {
  /**
   * Registers that are dead before the first instruction. They help where a RIP-relative operand is out of reach; once an
   * instruction has written one, it is left alone.
   */
  readonly dead?: RegisterSet;
  /**
   * Where branches to these addresses go instead. Without it a branch to a moved instruction lands on its copy, which skips a
   * probe at that address: a planner aims branches to its site at the start of the trampoline.
   */
  readonly aim?: ReadonlyMap<Address, Address | Label>;
}

/**
 * Emits a copy of `instructions`, which must follow each other without a gap, at the emitter's position. On refusal nothing
 * is emitted.
 */
export function relocateInto(
  code: Emitter,
  instructions: readonly Instruction[],
  options: RelocationOptions = {},
): Moved | Unmovable {
  const start = code.length;
  const result = new Relocation(code, instructions, options).run();
  if (result.kind === 'unmovable') code.rewind(start);
  return result;
}

/** As {@link relocateInto} into code of its own at `to`, with the jump back to the original code appended where needed. */
export function relocate(
  instructions: readonly Instruction[],
  to: Address,
  options: RelocationOptions = {},
): (Moved & { readonly code: Uint8Array }) | Unmovable {
  const code = new Emitter(to);
  const result = relocateInto(code, instructions, options);
  if (result.kind === 'unmovable') return result;
  const last = instructions.at(-1);
  if (result.fallsThrough && last !== undefined) code.jumpAnywhere(endOf(last));
  return { ...result, code: code.finish() };
}

/** One relocation while it runs. */
class Relocation {
  readonly #code: Emitter;
  readonly #instructions: readonly Instruction[];
  /** Dead before the instruction that comes next. */
  #dead: RegisterSet;
  readonly #aim: ReadonlyMap<Address, Address | Label>;
  readonly #labels = new Map<Address, Label>();
  readonly #start: Address;
  readonly #end: Address;
  #emulatesCall = false;
  #usesStack = false;

  constructor(code: Emitter, instructions: readonly Instruction[], options: RelocationOptions) {
    const [first] = instructions;
    const last = instructions.at(-1);
    invariant(first !== undefined && last !== undefined, 'relocating nothing');
    this.#code = code;
    this.#instructions = instructions;
    this.#dead = options.dead ?? 0;
    this.#aim = options.aim ?? new Map();
    this.#start = first.address;
    this.#end = endOf(last);
    let expected = this.#start;
    for (const instruction of instructions) {
      invariant(instruction.address === expected, 'relocating instructions with a gap between them');
      expected = endOf(instruction);
      this.#labels.set(instruction.address, code.label(formatAddress(instruction.address)));
    }
  }

  run(): Moved | Unmovable {
    const map = new Map<Address, Address>();
    for (const instruction of this.#instructions) {
      const label = this.#labels.get(instruction.address);
      invariant(label !== undefined, 'every instruction has a label');
      this.#code.bind(label);
      map.set(instruction.address, this.#code.here);
      const refusal = this.#refusal(instruction) ?? this.#move(instruction);
      if (refusal !== undefined) return refusal;
      // What a moved instruction writes may be read by the next; and after a jump nothing is known.
      if (!fallsThrough(instruction)) this.#dead = 0;
      else if (this.#dead !== 0) this.#dead &= ~accessOf(instruction).changes;
    }
    const last = this.#instructions.at(-1) as Instruction;
    return {
      kind: 'moved',
      map,
      // An emulated call returns to the original code by itself.
      fallsThrough: fallsThrough(last) && last.flow !== 'call' && last.flow !== 'indirect-call',
      emulatesCall: this.#emulatesCall,
      hasSyscall: this.#instructions.some(({ flow }) => flow === 'syscall'),
      hasTrap: this.#instructions.some(({ flow }) => flow === 'trap'),
      usesStack: this.#usesStack,
    };
  }

  /** What can be refused by looking at the instruction in its old place. */
  #refusal(instruction: Instruction): Unmovable | undefined {
    const { problem, flow, target, ripOperand } = instruction;
    if (problem !== undefined) return refuse('not-understood', instruction, problem);
    const isCall = flow === 'call' || flow === 'indirect-call';
    if (isCall && endOf(instruction) !== this.#end) {
      return refuse(
        'call-before-end',
        instruction,
        'it returns to bytes that are overwritten, so it must be the last one',
      );
    }
    if (
      flow === 'far' &&
      ((instruction.bytes[prefixesOf(instruction.bytes).opcodeOffset + 1] as number) & 0x38) === 0x18
    ) {
      return refuse('far-call', instruction, 'a far call would push the address of the copy');
    }
    const isKnown = target === undefined || this.#labels.has(target) || this.#aim.has(target);
    if (!isKnown && this.#isInside(target)) {
      return refuse('jump-into-instruction', instruction, 'it goes into the middle of an instruction that is moved');
    }
    if (ripOperand !== undefined && this.#touchesMovedBytes(instruction, ripOperand.target)) {
      return refuse('refers-to-moved-bytes', instruction, 'its operand lies in the bytes that are overwritten');
    }
    return undefined;
  }

  #isInside(address: Address): boolean {
    return address >= this.#start && address < this.#end;
  }

  #touchesMovedBytes(instruction: Instruction, target: Address): boolean {
    const accesses = accessOf(instruction).memory.filter((access) => access.base === undefined && !access.segment);
    // lea takes the address only. That of the site itself stays a good entry; one inside it does not.
    if (accesses.length === 0) return this.#isInside(target) && target !== this.#start;
    // 64 bytes where the size depends on the machine; xsave areas are never in code.
    const size = Math.max(...accesses.map((access) => access.size || 64));
    return target < this.#end && target + BigInt(size) > this.#start;
  }

  #move(instruction: Instruction): Unmovable | undefined {
    const code = this.#code;
    switch (instruction.flow) {
      case 'jump':
        code.jumpAnywhere(this.#aimOf(instruction));
        return undefined;
      case 'conditional-jump':
        this.#moveConditionalJump(instruction);
        return undefined;
      case 'loop':
        this.#moveLoop(instruction);
        return undefined;
      case 'xbegin':
        this.#moveXbegin(instruction);
        return undefined;
      case 'call':
        this.#pushReturnAddress(instruction);
        code.jumpAnywhere(this.#aimOf(instruction));
        return undefined;
      case 'indirect-call':
        return this.#moveIndirectCall(instruction);
      default:
        break;
    }
    if (instruction.ripOperand === undefined) {
      code.rawBytes(instruction.bytes);
      return undefined;
    }
    const way = moveRipRelative(code, instruction, instruction.ripOperand, this.#dead);
    if (way === 'stack') this.#usesStack = true;
    return way === undefined ? this.#outOfReach(instruction) : undefined;
  }

  /** Where a branch goes from the new place. */
  #aimOf(instruction: Instruction): Address | Label {
    const { target } = instruction;
    invariant(target !== undefined, 'a direct branch has a target');
    return this.#aim.get(target) ?? this.#labels.get(target) ?? target;
  }

  #moveConditionalJump(instruction: Instruction): void {
    const code = this.#code;
    const target = this.#aimOf(instruction);
    const { opcodeOffset } = prefixesOf(instruction.bytes);
    const opcode = instruction.bytes[opcodeOffset] as number;
    const number = (opcode === 0x0f ? (instruction.bytes[opcodeOffset + 1] as number) : opcode) & 15;
    const condition = conditions[number];
    invariant(condition !== undefined, 'four bits of condition');
    if (typeof target !== 'bigint' || reaches((code.here + 6n) as Address, target)) {
      code.jumpIf(condition, target);
      return;
    }
    const over = code.label('over');
    code.jumpIf(negated(condition), over, 'short');
    code.jumpAnywhere(target);
    code.bind(over);
  }

  /** `loop L` becomes: loop taken; jmp over; taken: jmp L; over. No flag may change, so it cannot be dec and jnz. */
  #moveLoop(instruction: Instruction): void {
    const code = this.#code;
    const { opcodeOffset, addressSize } = prefixesOf(instruction.bytes);
    const opcode = instruction.bytes[opcodeOffset] as 0xe0 | 0xe1 | 0xe2 | 0xe3;
    const taken = code.label('taken');
    const over = code.label('over');
    code.loop(opcode, taken, addressSize ? 'ecx' : 'rcx');
    code.jump(over, 'short');
    code.bind(taken);
    code.jumpAnywhere(this.#aimOf(instruction));
    code.bind(over);
  }

  #moveXbegin(instruction: Instruction): void {
    const code = this.#code;
    const target = this.#aimOf(instruction);
    if (typeof target !== 'bigint' || reaches((code.here + 6n) as Address, target)) {
      code.xbegin(target);
      return;
    }
    const aborted = code.label('aborted');
    const over = code.label('over');
    code.xbegin(aborted);
    code.jump(over, 'short');
    code.bind(aborted);
    code.jumpAnywhere(target);
    code.bind(over);
  }

  /** In one instruction, so that no signal ever finds half an address there; and without a flag or register. */
  #pushReturnAddress(instruction: Instruction): void {
    const address = endOf(instruction);
    this.#emulatesCall = true;
    if (address < 0x8000_0000n) this.#code.pushImmediate(Number(address));
    else this.#code.pushMemory(rip(this.#code.literal(address)));
  }

  #moveIndirectCall(instruction: Instruction): Unmovable | undefined {
    const code = this.#code;
    const { bytes, ripOperand } = instruction;
    const { opcodeOffset, rex, addressSize } = prefixesOf(bytes);
    const jump = bytes.slice();
    // ff /2 is call, ff /4 is jmp: with one field changed, prefixes (notrack, segments) and operand stay as they are.
    jump[opcodeOffset + 1] = ((jump[opcodeOffset + 1] as number) & ~0x38) | 0x20;
    if (ripOperand !== undefined) {
      const moved = moveRipRelative(code, { ...copyOf(instruction), bytes: jump }, ripOperand, this.#dead, () =>
        this.#pushReturnAddress(instruction),
      );
      return moved === undefined ? this.#outOfReach(instruction) : undefined;
    }
    const operand = operandOf(bytes, opcodeOffset, rex);
    const usesStackPointer = operand.kind === 'register' ? operand.register === rsp : operand.memory.base === rsp;
    if (!usesStackPointer) {
      this.#pushReturnAddress(instruction);
      code.rawBytes(jump);
      return undefined;
    }
    // The push moves the stack pointer down by 8, so the displacement grows by 8. What the push itself overwrites is lost.
    const { memory } = operand.kind === 'memory' ? operand : { memory: undefined };
    const disp = (memory?.disp ?? 0) + 8;
    const overlaps = memory?.index === undefined && disp > -8 && disp < 8;
    if (memory === undefined || overlaps || addressSize || disp !== (disp | 0) || hasSegment(bytes, opcodeOffset)) {
      return refuse(
        'call-through-stack',
        instruction,
        'its target depends on the stack pointer that a push would change',
      );
    }
    this.#pushReturnAddress(instruction);
    if (bytes.subarray(0, opcodeOffset).includes(notrack)) code.raw(notrack);
    code.jumpThrough({ ...memory, disp });
    return undefined;
  }

  #outOfReach(instruction: Instruction): Unmovable {
    const target = instruction.ripOperand === undefined ? '' : formatAddress(instruction.ripOperand.target);
    const message = `${target} is out of reach from ${formatAddress(this.#code.here)} and no register is free`;
    return refuse('out-of-reach', instruction, message);
  }
}

const notrack = 0x3e;

function hasSegment(bytes: Uint8Array, opcodeOffset: number): boolean {
  const prefixes = bytes.subarray(0, opcodeOffset);
  return prefixes.includes(0x64) || prefixes.includes(0x65);
}

function refuse(reason: UnmovableReason, instruction: Instruction, why: string): Unmovable {
  const text = `${formatInstruction(instruction)} at ${formatAddress(instruction.address)}`;
  return { kind: 'unmovable', reason, instruction, message: `cannot move ${text}: ${why}` };
}

/** A plain object with the same facts, because an instruction's own properties may be computed. */
function copyOf(instruction: Instruction): Instruction {
  const { address, length, bytes, mnemonic, operands, flow, target, ripOperand, problem } = instruction;
  return { address, length, bytes, mnemonic, operands, flow, target, ripOperand, problem };
}
