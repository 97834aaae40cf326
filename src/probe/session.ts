// A session: our connection to one target. It puts probes in, listens to them, and takes everything out again.

import type { Channel, ProbeCounters } from '../channel/channel.js';
import type { RawHit } from '../channel/ring.js';
import { FastprobeError } from '../errors.js';
import { attach as attachTarget } from '../target/attach.js';
import type { Exit } from '../target/events.js';
import { type LaunchOptions, launch as launchTarget } from '../target/launch.js';
import { readMaps } from '../target/maps.js';
import { listThreads, startTime } from '../target/proc.js';
import { refuseUnlessAttachable } from '../target/refusal.js';
import type { Target } from '../target/target.js';
import { Clock } from './clock.js';
import { type InstalledPatch, Installer } from './installer.js';
import { removeLeftovers } from './leftovers.js';
import { locate } from './location.js';
import { loadedModules, type Module } from './modules.js';
import type { Operate } from './presence.js';
import { type Hit, Probe, type ProbeOwner } from './probe.js';
import { checkSpec, type ProbeSpec } from './spec.js';
import { type CapturedValue, decodeValue } from './values.js';

/** How a session came to its end without being closed. */
export type SessionEnd = { readonly reason: 'exit'; readonly exit: Exit | undefined } | { readonly reason: 'exec' };

/** How often the ring is read: often after a hit, seldom when nothing comes. */
const shortestPauseMs = 2;
const longestPauseMs = 50;
/** How often we look whether the target still runs the program that we know. */
const programCheckMs = 500;

/** The types of what a probe captures, by site; they are the same at all sites where the value exists. */
type Captured = readonly { readonly name: string; readonly decode: (bits: bigint) => CapturedValue }[];

/**
 * Opens a session with a running process. It goes on running; it is stopped only for the moments in which probes are put
 * in or taken out.
 *
 * @example
 * await using session = await attach(4242);
 * const probe = await session.probe({ at: 'queue.c:42', when: 'n > cap', capture: ['n', 'cap', 'q->head->id'], maxHits: 5 });
 * for await (const hit of probe.hits()) console.log(hit.time, hit.thread, hit.values.n);
 */
export async function attach(pid: number): Promise<Session> {
  refuseUnlessAttachable(pid);
  const removed = await removeLeftovers(pid, { whoseOwner: 'is-dead' });
  return new Session(pid, undefined, removed);
}

/**
 * Starts a program, stopped at its entry point. Put probes in, then let it go with `start()`.
 *
 * @example
 * await using session = await launch(['sleep', '0.1']);
 * const probe = await session.probe({ at: 'libc.so!clock_nanosleep', capture: 'nothing' });
 * await session.start();
 * await session.ended;
 * console.log(probe.summary().hits);
 */
export async function launch(argv: readonly string[], options: LaunchOptions = {}): Promise<Session> {
  const target = await launchTarget(argv, options);
  return new Session(target.pid, target, 0);
}

/**
 * Made by `attach()` and `launch()`. While it is open and has probes, Node does not end by itself. Closing it, or leaving an `await using` block, restores the target's code and takes
 * all of our memory out of it.
 */
export class Session implements AsyncDisposable {
  readonly pid: number;
  /** How many patches of a fastprobe that had died were found in the target and taken out. */
  readonly leftoversRemoved: number;
  /** Resolves when the target has ended or replaced its program by another. */
  readonly ended: Promise<SessionEnd>;
  readonly #startTime: bigint | undefined;
  readonly #installer: Installer;
  readonly #probes = new Map<number, Probe>();
  readonly #patches = new Map<number, readonly InstalledPatch[]>();
  readonly #captured = new Map<number, Captured>();
  readonly #clock = new Clock();
  /** A program that we launched and that has not been started yet. */
  #held: Target | undefined;
  /** Resolves with the status of a program that we launched. */
  readonly #exit: Promise<Exit> | undefined;
  /** Stays readable when the target has gone. */
  #channel: Channel | undefined;
  #modules: readonly Module[] | undefined;
  #stopMicroseconds = 0;
  #work: Promise<unknown> = Promise.resolve();
  #isClosed = false;
  #hasEnded = false;
  #end: (end: SessionEnd) => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #pauseMs = shortestPauseMs;
  #lastProgramCheck = performance.now();

  /** For `attach()` and `launch()` only. */
  constructor(pid: number, held: Target | undefined, leftoversRemoved: number) {
    this.pid = pid;
    this.leftoversRemoved = leftoversRemoved;
    this.#held = held;
    this.#exit = held?.exited;
    this.#startTime = startTime(pid);
    this.#installer = new Installer(() => this.#allModules());
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  /** For how long the target has been held so far, all stops together. */
  get stopMicroseconds(): number {
    return this.#stopMicroseconds;
  }

  get probes(): readonly Probe[] {
    return [...this.#probes.values()];
  }

  /** Puts a probe in, at all sites of its location or at none. */
  async probe(spec: ProbeSpec): Promise<Probe> {
    return this.#inTurn(() => this.#addProbe(spec));
  }

  /** Lets a launched program go. */
  async start(): Promise<void> {
    await this.#inTurn(async () => {
      const target = this.#held;
      this.#held = undefined;
      await target?.detach();
    });
  }

  /** Takes out every probe, and all memory and handlers of ours. The target goes on as if we had never been there. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.#inTurn(async () => {
      this.#isClosed = true;
      try {
        if (!this.#hasEnded && this.#installer.presence !== undefined) {
          await this.#attached(async (target) => {
            this.#drain();
            await this.#installer.removeAll(target);
          });
        }
        await this.#held?.detach();
      } catch (error) {
        if (!isGone(error)) throw error;
      } finally {
        this.#finish();
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** One operation after the other: two at once would plan with each other's bytes. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#work.then(work);
    this.#work = turn.catch(() => {});
    return turn;
  }

  #allModules(): readonly Module[] {
    this.#modules ??= loadedModules(this.pid);
    return this.#modules;
  }

  /** Attaches for as long as `work` takes, unless the program is not started yet and so is ours anyway. */
  async #attached<T>(work: (target: Target, operate: Operate) => Promise<T>): Promise<T> {
    const held = this.#held;
    if (held !== undefined) return work(held, (plan) => held.operate(plan, 'stay-stopped'));
    const target = await attachTarget(this.pid);
    const operate: Operate = async (plan, options) => {
      const result = await target.operate(plan, options?.isLast ? 'detach' : 'run');
      this.#stopMicroseconds += result.heldMicroseconds;
      return result;
    };
    try {
      return await work(target, operate);
    } finally {
      this.#stopMicroseconds += await target.detach();
    }
  }

  async #addProbe(spec: ProbeSpec): Promise<Probe> {
    if (this.#isClosed || this.#hasEnded) {
      throw new FastprobeError('FASTPROBE_SESSION_CLOSED', `the session with process ${this.pid} is over`, {
        hint: 'open a new one with attach()',
      });
    }
    const sites = this.#locate(spec.at);
    const checked = checkSpec(spec, sites);
    return this.#attached(async (target, operate) => {
      const presence = await this.#installer.prepare(target, checked.sites, operate);
      this.#channel = presence.channel;
      const limit = spec.maxHits === undefined ? (1n << 64n) - 1n : BigInt(spec.maxHits);
      const id = presence.channel.addProbe(spec, limit);
      let patches: InstalledPatch[];
      try {
        patches = await this.#installer.install(target, presence, id, checked.sites, operate);
      } catch (error) {
        presence.channel.removeProbe(id);
        throw error;
      }
      const probe = new Probe(
        {
          id,
          spec,
          leftOut: checked.leftOut,
          sites: checked.sites.map(({ site }) => {
            const patch = patches.find((each) => each.site === site.address);
            return { ...site, tactic: patch?.tactic ?? 'trap', passedOver: patch?.passedOver ?? [] };
          }),
        },
        this.#ownerOf(),
      );
      this.#captured.set(
        id,
        checked.names.map((name, index) => {
          const type = checked.sites.map(({ captures }) => captures?.[index]?.type).find((each) => each !== undefined);
          return { name, decode: (bits) => (type === undefined ? null : decodeValue(type, bits)) };
        }),
      );
      this.#patches.set(id, patches);
      this.#probes.set(id, probe);
      this.#schedule(shortestPauseMs);
      return probe;
    });
  }

  /** The sites of a location; a module may have been loaded since we last looked. */
  #locate(text: string) {
    try {
      return locate(text, this.#allModules());
    } catch (error) {
      const fresh = loadedModules(this.pid);
      const known = new Set(this.#modules?.map(({ path }) => path));
      const added = fresh.filter(({ path }) => !known.has(path));
      if (added.length === 0) throw error;
      this.#modules = [...(this.#modules ?? []), ...added];
      return locate(text, this.#modules);
    }
  }

  /** What probes ask of us. */
  #ownerOf(): ProbeOwner {
    return {
      counters: (id) => this.#counters(id),
      faultsBy: (id) => this.#faultsBy(id),
      toHit: (probe, raw) => this.#toHit(probe, raw),
      remove: (probe) => this.#inTurn(() => this.#remove(probe)),
    };
  }

  #counters(id: number): ProbeCounters {
    return this.#channel?.counters(id) ?? { hits: 0n, faults: 0n, dropped: 0n };
  }

  #faultsBy(id: number): ReadonlyMap<string, bigint> {
    const counts = new Map<string, bigint>();
    const redirects = this.#channel?.redirects;
    for (const { facts } of this.#patches.get(id) ?? []) {
      for (const { at, expression } of facts) {
        const count = redirects?.count(at) ?? 0n;
        if (count > 0n) counts.set(expression, (counts.get(expression) ?? 0n) + count);
      }
    }
    return counts;
  }

  #toHit(probe: Probe, raw: RawHit): Hit {
    const captured = this.#captured.get(probe.id) ?? [];
    const values = captured.map(({ name, decode }, index) => {
      const isReadable = (raw.unreadable & (1 << index)) === 0;
      return [name, isReadable ? decode(raw.values[index] ?? 0n) : null] as const;
    });
    return {
      probe: probe.id,
      time: this.#clock.nanoseconds(raw.time),
      thread: raw.tid,
      values: Object.fromEntries(values),
    };
  }

  async #remove(probe: Probe): Promise<void> {
    if (!this.#probes.delete(probe.id)) return;
    try {
      if (!this.#isClosed && !this.#hasEnded) {
        await this.#attached((target, operate) => this.#installer.remove(target, probe.id, operate));
        this.#channel?.removeProbe(probe.id);
      }
    } catch (error) {
      if (!isGone(error)) throw error;
    } finally {
      this.#drain(probe);
      probe.end();
    }
  }

  // --- listening

  #schedule(pauseMs: number): void {
    clearTimeout(this.#timer);
    this.#pauseMs = pauseMs;
    this.#timer = setTimeout(() => this.#listen(), pauseMs);
  }

  #listen(): void {
    if (this.#isClosed || this.#hasEnded) return;
    const count = this.#drain();
    for (const probe of this.#probes.values()) if (probe.isComplete) void probe.remove().catch(() => {});
    const end = this.#lookForEnd();
    if (end === undefined) this.#schedule(count > 0 ? shortestPauseMs : Math.min(this.#pauseMs * 2, longestPauseMs));
    else void this.#onEnd(end);
  }

  /** Hands out what the ring has. */
  #drain(removed?: Probe): number {
    this.#clock.update();
    return (
      this.#channel?.ring.drain((raw) => {
        const probe = this.#probes.get(raw.probe) ?? (removed?.id === raw.probe ? removed : undefined);
        probe?.deliver(raw);
      }) ?? 0
    );
  }

  /** Whether the program that we probed is still there. */
  #lookForEnd(): SessionEnd['reason'] | undefined {
    const isThere = startTime(this.pid) === this.#startTime;
    if (!isThere || listThreads(this.pid).every(({ state }) => state === 'Z' || state === 'X')) return 'exit';
    if (performance.now() - this.#lastProgramCheck < programCheckMs) return undefined;
    this.#lastProgramCheck = performance.now();
    const channel = this.#channel?.address;
    const isMapped = channel === undefined || readMaps(this.pid).some(({ start }) => start === channel);
    return isMapped ? undefined : 'exec';
  }

  async #onEnd(reason: SessionEnd['reason']): Promise<void> {
    this.#drain();
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    // First why, then that: whoever waits for both hears the reason.
    this.#end(reason === 'exit' ? { reason, exit: await this.#exit } : { reason });
    this.#finish();
  }

  #finish(): void {
    clearTimeout(this.#timer);
    for (const probe of this.#probes.values()) probe.end();
  }
}

function isGone(error: unknown): boolean {
  const codes = ['FASTPROBE_TARGET_EXITED', 'FASTPROBE_NO_SUCH_PROCESS', 'FASTPROBE_ZOMBIE'];
  return error instanceof FastprobeError && codes.includes(error.code);
}
