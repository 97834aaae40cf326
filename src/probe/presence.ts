// What a session has in its target: the channel, arenas with views of it, and, where needed, the runtime and its handlers.

import { closeSync } from 'node:fs';
import { type Address, address, offsetBy } from '../address.js';
import { Channel, channelName } from '../channel/channel.js';
import { actionSize, arenaSize, channelSize, ourSignals } from '../channel/layout.js';
import { FastprobeError } from '../errors.js';
import { Arena } from '../patch/arena.js';
import { actionCall, actionFor, hasHandler, type Runtime, writeRuntime } from '../patch/runtime.js';
import { findRoom, type Span } from '../patch/space.js';
import type { OperationPlan, OperationResult } from '../target/operation.js';
import { startTime } from '../target/proc.js';
import { mapCall, type RemoteCall, shareCalls } from '../target/remote-calls.js';
import { SharedRegion } from '../target/shared-region.js';
import { PROT } from '../target/syscalls.js';
import type { Target } from '../target/target.js';
import type { ThreadNumber } from './body.js';

const wholeSize = channelSize + arenaSize;

/** Where C libraries keep a thread's number, from its thread pointer: glibc, and musl old and new. */
const threadNumberOffsets = [0x2d0, 0x38, 0x30];

export type OurSignal = keyof typeof ourSignals;
export const signalNames = Object.keys(ourSignals) as OurSignal[];

/** Does what is planned to the target, in one short stop. `isLast` lets go of it as well. */
export type Operate = (plan: OperationPlan, options?: { isLast: boolean }) => Promise<OperationResult>;

/** Made from what was planned while the target ran. */
export class Presence {
  readonly channel: Channel;
  /** How trampolines learn the number of their thread. */
  readonly threadNumber: ThreadNumber;
  readonly #arenas: Arena[] = [];
  #runtime: Runtime | undefined;
  #hasHandlers = false;

  private constructor(channel: Channel, threadNumber: ThreadNumber) {
    this.channel = channel;
    this.threadNumber = threadNumber;
  }

  /** Makes the channel, and arenas at the given places: the first one beside it. */
  static async begin(target: Target, places: readonly Address[], operate: Operate): Promise<Presence> {
    const [first, ...others] = places;
    if (first === undefined) throw new RangeError('a channel needs a place');
    const { descriptor = -1, threadPointers } = await operate({
      calls: [
        ...shareCalls(channelSize, first),
        codeCall(first),
        ...others.flatMap((at) => viewCalls(target, first, at)),
      ],
      data: Buffer.from(`${channelName}\0`),
      descriptorOf: 0,
    });
    try {
      const region = new SharedRegion(`/proc/self/fd/${descriptor}`, channelSize, first);
      const owner = { pid: process.pid, startTime: startTime(process.pid) ?? 0n };
      const presence = new Presence(Channel.begin(region, owner), await findThreadNumber(target, threadPointers));
      presence.#note(places);
      return presence;
    } finally {
      closeSync(descriptor);
    }
  }

  /** Adds arenas, each with a view of the channel. */
  async addArenas(target: Target, places: readonly Address[], operate: Operate): Promise<void> {
    await operate({ calls: places.flatMap((at) => viewCalls(target, this.channel.address, at)) });
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

  /** The calls that put our handlers in the place of the target's own, which the channel keeps. */
  async handlerCalls(target: Target): Promise<RemoteCall[]> {
    const runtime = await this.runtime(target);
    const { channel } = this;
    // From here on a later fastprobe knows that there may be handlers to put back, and finds the target's own where the
    // kernel itself puts them, in the moment in which it takes ours.
    channel.expectActions();
    channel.restorer = runtime.restorer;
    channel.runtime = runtime.code;
    this.#hasHandlers = true;
    channel.scratchBytes.set(actionFor(runtime, new Uint8Array(actionSize)));
    return Object.values(ourSignals).map((signal, index) =>
      actionCall(signal, channel.scratch, channel.actionAddress(index)),
    );
  }

  /** Where the target had a handler of its own, ours has to be called as that was: same stack, same mask. */
  async adaptHandlers(target: Target, operate: Operate): Promise<void> {
    const runtime = await this.runtime(target);
    const { scratch, scratchBytes, actions } = this.channel;
    const replaced = [...actions].filter(([, action]) => hasHandler(action));
    if (replaced.length === 0) return;
    replaced.forEach(([, action], index) => {
      scratchBytes.set(actionFor(runtime, action), index * actionSize);
    });
    await operate({
      calls: replaced.map(([signal], index) => actionCall(signal, offsetBy(scratch, index * actionSize))),
    });
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

/** Finds where the C library keeps a thread's number, if it holds for every thread. The target may run. */
async function findThreadNumber(target: Target, pointers: ReadonlyMap<number, Address>): Promise<ThreadNumber> {
  const threads = [...pointers];
  for (const offset of threadNumberOffsets) {
    const words = await target.readMany(
      threads.map(([, pointer]) => ({ address: offsetBy(pointer, offset), length: 4 })),
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
