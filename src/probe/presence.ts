// What a session has in its target: the channel, arenas with views of it, and, where needed, the runtime and its handlers.

import { type Address, address, offsetBy } from '../address.js';
import { Channel } from '../channel/channel.js';
import { actionSize, arenaSize, channelSize, ourSignals } from '../channel/layout.js';
import { FastprobeError } from '../errors.js';
import { Arena } from '../patch/arena.js';
import { actionCall, actionFor, hasHandler, type Runtime, writeRuntime } from '../patch/runtime.js';
import { findRoom, type Span } from '../patch/space.js';
import { startTime } from '../target/proc.js';
import { mapCall, type RemoteCall } from '../target/remote-calls.js';
import { PROT } from '../target/syscalls.js';
import type { Target } from '../target/target.js';
import type { ThreadNumber } from './body.js';

const wholeSize = channelSize + arenaSize;

/** Where C libraries keep a thread's number, from its thread pointer: glibc, and musl old and new. */
const threadNumberOffsets = [0x2d0, 0x38, 0x30];

export type OurSignal = keyof typeof ourSignals;
export const signalNames = Object.keys(ourSignals) as OurSignal[];

/** Made while the target is stopped, from what was planned while it ran. */
export class Presence {
  readonly channel: Channel;
  readonly #arenas: Arena[] = [];
  #threadNumber: ThreadNumber | undefined;
  #runtime: Runtime | undefined;
  #hasHandlers = false;

  private constructor(channel: Channel) {
    this.channel = channel;
  }

  /** Makes the channel, and arenas at the given places: the first one beside it. */
  static async begin(target: Target, places: readonly Address[]): Promise<Presence> {
    const [first, ...others] = places;
    if (first === undefined) throw new RangeError('a channel needs a place');
    const owner = { pid: process.pid, startTime: startTime(process.pid) ?? 0n };
    const further = [codeCall(first), ...others.flatMap((at) => viewCalls(target, first, at))];
    const presence = new Presence(await Channel.make(target, first, owner, further));
    presence.#note(places);
    return presence;
  }

  /** Adds arenas, each with a view of the channel. */
  async addArenas(target: Target, places: readonly Address[]): Promise<void> {
    await target.remote.batch(places.flatMap((at) => viewCalls(target, this.channel.address, at)));
    this.#note(places);
  }

  #note(places: readonly Address[]): void {
    for (const at of places) this.#arenas.push(new Arena(offsetBy(at, channelSize), arenaSize, at));
  }

  get hasHandlers(): boolean {
    return this.#hasHandlers;
  }

  /** An arena that reaches all of `code`, if there is one already. */
  arenaFor(code: Span): Arena | undefined {
    return this.#arenas.find((arena) => arena.reaches(code));
  }

  /** How trampolines learn the number of their thread; known once it was asked for in a stopped target. */
  get threadNumber(): ThreadNumber {
    return this.#threadNumber ?? { from: 'system-call' };
  }

  get knowsThreadNumber(): boolean {
    return this.#threadNumber !== undefined;
  }

  async findThreadNumber(target: Target): Promise<void> {
    this.#threadNumber ??= await findThreadNumber(target);
  }

  /** The runtime, written where nobody leads to it yet. The target may run. */
  async runtime(target: Target): Promise<Runtime> {
    if (this.#runtime !== undefined) return this.#runtime;
    const [arena] = this.#arenas;
    if (arena === undefined) throw new RangeError('no arena');
    this.#runtime = await writeRuntime(target, arena);
    return this.#runtime;
  }

  /** Where its code is; 0 if it was never needed. */
  get runtimeCode(): Address {
    return this.#runtime?.code ?? address(0);
  }

  /** Puts our handlers in the place of the target's own, which the channel keeps. */
  async installHandlers(target: Target): Promise<void> {
    if (this.#hasHandlers) return;
    const runtime = await this.runtime(target);
    const { channel } = this;
    // From here on a later fastprobe knows that there may be handlers to put back, and finds the target's own where the
    // kernel itself puts them, in the moment in which it takes ours.
    channel.expectActions();
    channel.restorer = runtime.restorer;
    channel.runtime = runtime.code;
    this.#hasHandlers = true;
    const signals = Object.values(ourSignals);
    channel.scratchBytes.set(actionFor(runtime, new Uint8Array(actionSize)));
    await target.remote.batch(
      signals.map((signal, index) => actionCall(signal, channel.scratch, channel.actionAddress(index))),
    );
    // Where the target had a handler of its own, ours has to be called as that was.
    const replaced = [...channel.actions].filter(([, action]) => hasHandler(action));
    replaced.forEach(([, action], index) => {
      channel.scratchBytes.set(actionFor(runtime, action), index * actionSize);
    });
    await target.remote.batch(
      replaced.map(([signal], index) => actionCall(signal, offsetBy(channel.scratch, index * actionSize))),
    );
  }

  /** All our memory in the target. */
  get mappings(): Span[] {
    return this.#arenas.map((arena) => ({ low: arena.channel, high: arena.high }));
  }

  /** The target's own actions as they are now, to be put back; none if ours were never installed. */
  get actions(): ReadonlyMap<number, Uint8Array> {
    return this.#hasHandlers ? this.channel.actions : new Map();
  }
}

/** Where arenas go so that each span of code has one in reach. Looks at the map only, so that the target may run. */
export function placesFor(target: Target, spans: readonly Span[]): Address[] {
  const maps = target.maps();
  const planned: Arena[] = [];
  for (const span of spans) {
    if (planned.some((arena) => arena.reaches(span))) continue;
    const taken = planned.map((arena) => ({ start: arena.channel, end: arena.high, path: '' }));
    const at = findRoom(
      [...maps, ...taken].sort((a, b) => (a.start < b.start ? -1 : 1)),
      span,
      wholeSize,
    );
    planned.push(new Arena(offsetBy(at, channelSize), arenaSize, at));
  }
  return planned.map((arena) => arena.channel);
}

/** Maps the code part of an arena. */
function codeCall(view: Address): RemoteCall {
  return mapCall(arenaSize, { at: offsetBy(view, channelSize), protection: PROT.read | PROT.exec });
}

/** Map a further view of the channel, with an arena. */
function viewCalls(target: Target, channel: Address, at: Address): RemoteCall[] {
  return [...target.remote.mapAgain(channel, channelSize, at), codeCall(at)];
}

/** Finds where the C library keeps a thread's number, if it holds for every thread. */
async function findThreadNumber(target: Target): Promise<ThreadNumber> {
  const threads = [...(await target.registers())];
  for (const offset of threadNumberOffsets) {
    const words = await target.readMany(
      threads.map(([, { fs_base }]) => ({ address: offsetBy(address(fs_base), offset), length: 4 })),
    );
    const isRight = threads.every(([tid], index) => {
      const word = words[index];
      return word?.length === 4 && new DataView(word.buffer, word.byteOffset).getInt32(0, true) === tid;
    });
    if (isRight && threads.length > 0) return { from: 'thread-pointer', offset };
  }
  return { from: 'system-call' };
}

/** The signals of ours that some thread blocks: a fault or a trap would then end the target. */
export function refuseBlocked(blocked: readonly OurSignal[], what: string): void {
  if (blocked.length === 0) return;
  throw new FastprobeError(
    'FASTPROBE_SIGNAL_BLOCKED',
    `a thread of the target blocks ${blocked.join(' and ')}: ${what}`,
    {
      hint: 'use an expression without pointers that may be bad, or another site',
    },
  );
}
