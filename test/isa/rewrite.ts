// Patching a copy of a program's file: sites become jumps to code in its .fp_room section. No process, no ptrace.

import { spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { type Address, offsetBy } from '../../src/address.js';
import { Emitter, mem } from '../../src/isa/emit.js';
import { analyseFlow, type FunctionFlow } from '../../src/isa/flow.js';
import { endOf, type Instruction } from '../../src/isa/instruction.js';
import { type Dead, Liveness } from '../../src/isa/liveness.js';
import { type RegisterSet, registersIn, rsp } from '../../src/isa/registers.js';
import { relocateInto } from '../../src/isa/relocate.js';
import { Image } from './image.js';

/** A place where a jump fits: the instruction there and, if it is short, those after it that nobody jumps to. */
export interface Site {
  readonly address: Address;
  readonly displaced: readonly Instruction[];
  readonly dead: Dead;
}

const jumpSize = 5;

/** A program with room for code, its functions, and every site where a jump fits. */
export class Subject {
  readonly image: Image;
  readonly flows: readonly FunctionFlow[];
  readonly sites: readonly Site[];

  constructor(path: string) {
    this.image = new Image(path);
    const text = this.image.section('.text');
    const ranges = this.image.functions().filter(({ start, end }) => start >= text.start && end <= text.end);
    const analyse = (entries: readonly Address[]) =>
      ranges.map(({ start, end }) =>
        analyseFlow(this.image.bytes(start, Number(end - start)), start, { ...this.image.options, entries }),
      );
    // What jumps out of one range enters another one: a cold part jumps back into the middle of its function.
    this.flows = analyse(analyse([]).flatMap(({ outsideTargets }) => [...outsideTargets]));
    this.sites = this.flows.flatMap(sitesOf);
  }

  /** Writes a copy in which `sites` run through trampolines that first overwrite what `spoil` says. */
  rewrite(sites: readonly Site[], to: string, spoil: (site: Site) => Dead, random: () => number): Site[] {
    const room = this.image.section('.fp_room');
    const file = Buffer.from(this.image.file);
    let free = room.start;
    const done: Site[] = [];
    for (const site of sites) {
      const code = new Emitter(free);
      overwrite(code, spoil(site), random);
      const moved = relocateInto(code, site.displaced, { dead: 0 });
      // A moved call pushes an absolute return address, which a file that is loaded anywhere cannot hold.
      if (moved.kind === 'unmovable' || (moved.emulatesCall && this.image.isPositionIndependent)) continue;
      if (moved.fallsThrough) code.jump(endOf(site.displaced.at(-1) as Instruction));
      const bytes = code.finish();
      if (free + BigInt(bytes.length) > room.end) break;
      file.set(bytes, room.offset + Number(free - room.start));
      const jump = new Emitter(site.address);
      jump.jump(free);
      file.set(jump.finish(), this.image.offsetOf(site.address, jumpSize) ?? Number.NaN);
      free = offsetBy(free, bytes.length);
      done.push(site);
    }
    writeFileSync(to, file);
    chmodSync(to, 0o755);
    return done;
  }
}

function sitesOf(flow: FunctionFlow): Site[] {
  const liveness = new Liveness(flow);
  return flow.instructions.flatMap((first, index): Site[] => {
    const displaced: Instruction[] = [];
    let size = 0;
    for (let i = index; size < jumpSize && i < flow.instructions.length; i++) {
      const instruction = flow.instructions[i] as Instruction;
      if (i > index && flow.canBeJumpedTo(instruction.address) !== 'no') return [];
      displaced.push(instruction);
      size += instruction.length;
    }
    return size < jumpSize ? [] : [{ address: first.address, displaced, dead: liveness.deadBefore(first.address) }];
  });
}

/** Garbage in registers, and every one of the flags turned over. */
function overwrite(code: Emitter, { registers, flags }: Dead, random: () => number): void {
  if (flags !== 0) {
    code.lea(rsp, mem({ base: rsp, disp: -128 }));
    code.pushfq();
    code.aluMemoryImmediate('xor', mem({ base: rsp }), flags);
    code.popfq();
    code.lea(rsp, mem({ base: rsp, disp: 128 }));
  }
  for (const register of registersIn(registers as RegisterSet)) {
    code.movImmediate(register, (BigInt(random()) << 32n) | BigInt(random()));
  }
}

/** What a program prints and how it ends; a program that hangs ends by a signal. */
export function outcomeOf(program: string, timeout = 20_000): string {
  const { stdout, status, signal } = spawnSync(program, { encoding: 'utf8', timeout, killSignal: 'SIGKILL' });
  return `${stdout}\n${status} ${signal}`;
}
