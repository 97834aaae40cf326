// Patching a copy of a program's file: sites become jumps to code in its .fp_room section. No process, no ptrace.

import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { type Address, address, offsetBy } from '../../src/address.js';
import { Emitter, mem } from '../../src/isa/emit.js';
import { analyseFlow, type FunctionFlow } from '../../src/isa/flow.js';
import { endOf, type Instruction } from '../../src/isa/instruction.js';
import { type Dead, Liveness } from '../../src/isa/liveness.js';
import { type RegisterSet, registersIn, rsp } from '../../src/isa/registers.js';
import { relocateInto } from '../../src/isa/relocate.js';
import { Image, type ImageSection } from './image.js';

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

  constructor(path: string, more: readonly ImageSection[] = []) {
    this.image = new Image(path, more);
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

  /** Writes a copy in which `sites` run through trampolines that first overwrite what `spoil` says. Returns those that do. */
  rewrite(sites: readonly Site[], to: string, { spoil, random, room = '.fp_room' }: RewriteOptions): Site[] {
    const file = Buffer.from(this.image.file);
    const trampolines = new Room(this.image, file, room);
    const stubs = room === '.fp_far' ? new Room(this.image, file, '.fp_room') : undefined;
    const done: Site[] = [];
    for (const site of sites) {
      const code = new Emitter(trampolines.free);
      overwrite(code, spoil(site), random);
      const moved = relocateInto(code, site.displaced, { dead: site.dead.registers });
      // A moved call pushes an absolute return address, which a file that is loaded anywhere cannot hold.
      if (moved.kind === 'unmovable' || (moved.emulatesCall && this.image.isPositionIndependent)) continue;
      if (moved.fallsThrough) code.jumpAnywhere(endOf(site.displaced.at(-1) as Instruction));
      let entry = trampolines.put(code.finish());
      if (stubs !== undefined) {
        const stub = new Emitter(stubs.free);
        stub.jumpAbsolute(entry);
        entry = stubs.put(stub.finish());
      }
      const jump = new Emitter(site.address);
      jump.jump(entry);
      file.set(jump.finish(), this.image.offsetOf(site.address, jumpSize) ?? Number.NaN);
      done.push(site);
    }
    writeFileSync(to, file);
    chmodSync(to, 0o755);
    return done;
  }
}

export interface RewriteOptions {
  readonly spoil: (site: Site) => Dead;
  readonly random: () => number;
  /** Where trampolines go: in reach of the code, or behind a jump to a section that is not. */
  readonly room?: '.fp_room' | '.fp_far';
}

/** A section that is filled from its start. */
class Room {
  free: Address;
  readonly #end: Address;
  readonly #file: Buffer;
  readonly #shift: bigint;

  constructor(image: Image, file: Buffer, name: string) {
    const { start, end, offset } = image.section(name);
    this.free = start;
    this.#end = end;
    this.#file = file;
    this.#shift = BigInt(offset) - start;
  }

  put(bytes: Uint8Array): Address {
    const at = this.free;
    this.free = offsetBy(at, bytes.length);
    if (this.free > this.#end) throw new Error('the room is full');
    this.#file.set(bytes, Number(at + this.#shift));
    return at;
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

/**
 * Copies a program and gives the copy room for code: a segment at the end of the file takes the place of a note among the
 * program headers. For programs that were not compiled with such room.
 */
export function withRoom(path: string, to: string, size: number): ImageSection {
  const original = readFileSync(path);
  const page = 0x1000;
  const offset = Math.ceil(original.length / page) * page;
  const file = Buffer.concat([original, Buffer.alloc(offset - original.length + size)]);
  const table = Number(file.readBigUInt64LE(32));
  const headers = Array.from({ length: file.readUInt16LE(56) }, (_, i) =>
    Buffer.from(file.subarray(table + i * 56, table + (i + 1) * 56)),
  );
  const isLoaded = (header: Buffer) => header.readUInt32LE(0) === 1;
  const ends = headers.filter(isLoaded).map((header) => header.readBigUInt64LE(16) + header.readBigUInt64LE(40));
  const top = ends.reduce((most, end) => (end > most ? end : most), 0n);
  // Some way above the program, because the kernel puts the heap behind its last data.
  const start = address(((top + 0x1000000n) / 0x1000n) * 0x1000n);
  const [room] = headers.splice(
    headers.findIndex((header) => header.readUInt32LE(0) === 4),
    1,
  );
  if (room === undefined) throw new Error(`${path} has no note to replace`);
  // PT_LOAD, readable and executable; offset, addresses, sizes, alignment.
  room.writeUInt32LE(1, 0);
  room.writeUInt32LE(5, 4);
  [BigInt(offset), start, start, BigInt(size), BigInt(size), BigInt(page)].forEach((value, i) => {
    room.writeBigUInt64LE(value, 8 + i * 8);
  });
  // Loaded segments must be in the order of their addresses.
  headers.splice(headers.findLastIndex(isLoaded) + 1, 0, room);
  Buffer.concat(headers).copy(file, table);
  writeFileSync(to, file);
  chmodSync(to, 0o755);
  return { name: '.fp_room', start, end: offsetBy(start, size), offset, flags: 'AX' };
}

/** What a program prints and how it ends; a program that hangs ends by a signal. */
export function outcomeOf(program: string, options: { args?: readonly string[]; timeout?: number } = {}): string {
  const { stdout, stderr, status, signal } = spawnSync(program, options.args ?? [], {
    encoding: 'utf8',
    timeout: options.timeout ?? 60_000,
    killSignal: 'SIGKILL',
    argv0: 'program',
  });
  return `${stdout}${stderr}\n${status} ${signal}`;
}
