// Putting patches into a target and taking them out: everything is planned while it runs, then it is stopped once, shortly.

import type { Address } from '../address.js';
import { ourSignals } from '../channel/layout.js';
import { FastprobeError } from '../errors.js';
import { mayFault } from '../lang/compile.js';
import { type Body, type PlannedPatch, type PlanOptions, planPatch } from '../patch/plan.js';
import { leadSigaction } from '../patch/runtime.js';
import { type CodeSource, type FlowCache, readSiteCode } from '../patch/site-code.js';
import {
  codeChanged,
  installation,
  overwritten,
  type Placed,
  removal,
  writeTrampolines,
} from '../patch/transaction.js';
import { hasShadowStack, signalSets } from '../target/proc.js';
import type { Target } from '../target/target.js';
import { emitBody, type FaultExit } from './body.js';
import { forbiddenCode } from './forbidden.js';
import type { Module } from './modules.js';
import { type Operate, type OurSignal, Presence, placesFor, refuseBlocked, signalNames } from './presence.js';
import type { SiteExpressions } from './spec.js';
import { takeOut } from './take-out.js';

/** A patch that is in the target. */
export interface InstalledPatch extends PlannedPatch<readonly FaultExit[]>, Placed {
  readonly probe: number;
  /** Its number in the channel's records. */
  readonly record: number;
}

/** What surrounds a site. */
type Around = (site: Address) => Omit<PlanOptions<unknown>['around'], 'whyForbidden'>;

/** The number under which patches of our own needs are recorded, beside those of probes. */
const noProbe = 0xffff;

/** Owns what is in the target. Every method takes an attached target, and changes it only by operations. */
export class Installer {
  readonly #modules: () => readonly Module[];
  #presence: Presence | undefined;
  #placed: InstalledPatch[] = [];

  constructor(modules: () => readonly Module[]) {
    this.#modules = modules;
  }

  get presence(): Presence | undefined {
    return this.#presence;
  }

  /** Sees to it that there is what the expressions at these sites need: the channel, and arenas within reach. */
  async prepare(target: Target, sites: readonly SiteExpressions[], operate: Operate): Promise<Presence> {
    const modules = sites.map(({ site }) => site.module);
    return this.#prepare(target, faults(sites) ? [...modules, ...this.#watched()] : modules, operate);
  }

  async #prepare(target: Target, modules: readonly Module[], operate: Operate): Promise<Presence> {
    const missing = modules.filter(({ code }) => this.#presence?.arenaFor(code) === undefined);
    if (this.#presence !== undefined && missing.length === 0) return this.#presence;
    const places = placesFor(
      target,
      missing.map(({ code }) => code),
    );
    if (this.#presence === undefined) this.#presence = await Presence.begin(target, places, operate);
    else await this.#presence.addArenas(target, places, operate);
    return this.#presence;
  }

  /** The modules whose sigaction has to be watched once there are handlers. */
  #watched(): Module[] {
    return this.#modules().filter((module) => sigactionOf(module) !== undefined);
  }

  /** Plans and makes the patches of a probe: all or none. */
  async install(
    target: Target,
    presence: Presence,
    probe: number,
    sites: readonly SiteExpressions[],
    operate: Operate,
  ): Promise<InstalledPatch[]> {
    const blocked = blockedSignals(target.pid);
    if (faults(sites)) {
      const fatal = blocked.filter((signal) => signal !== 'SIGTRAP');
      refuseBlocked(fatal, 'a bad pointer in the expression would end it');
    }
    const cache: FlowCache = new Map();
    const planned: { patch: PlannedPatch<readonly FaultExit[]>; probe: number }[] = [];
    const around = this.#surroundings(target, blocked, sites, planned);
    for (const { site, condition, captures } of sites) {
      const body: Body<readonly FaultExit[]> = (code, siteCode) =>
        emitBody(code, siteCode, {
          probe,
          condition,
          captures,
          channel: arena.channel,
          loadBias: site.module.bias,
          threadNumber: presence.threadNumber,
        });
      const arena = arenaOf(presence, site.module);
      const code = await readSiteCode(this.#codeSource(target, site.module), site.address, cache);
      const whyForbidden = await forbiddenCode(target, site.module, site.address);
      planned.push({
        patch: planPatch(code, { arena, around: { ...around(site.address), whyForbidden }, body }),
        probe,
      });
    }
    const needsHandlers = planned.some(({ patch }) => patch.tactic === 'trap' || patch.facts.length > 0);
    if (needsHandlers && !presence.hasHandlers) {
      await this.#prepare(target, this.#watched(), operate);
      for (const patch of await this.#planWatch(target, presence, around, cache))
        planned.push({ patch, probe: noProbe });
    }
    return this.#make(target, presence, planned, { needsHandlers, operate });
  }

  #surroundings(
    target: Target,
    blocked: readonly OurSignal[],
    sites: readonly SiteExpressions[],
    planned: readonly { patch: PlannedPatch }[],
  ): Around {
    const shadowStack = hasShadowStack(target.pid);
    const noTrap = blocked.includes('SIGTRAP')
      ? 'a thread blocks SIGTRAP, so that a trap would end the target'
      : undefined;
    return (own: Address) => ({
      noTrap,
      hasShadowStack: shadowStack,
      isTaken: (low: bigint, high: bigint) =>
        [...this.#placed, ...planned.map(({ patch }) => patch)].some(
          ({ site, displaced }) => site < high && low < site + BigInt(displaced.length),
        ) || sites.some(({ site: { address } }) => address !== own && low <= address && address < high),
    });
  }

  /** What the planner asks about the code of a module. */
  #codeSource(target: Target, module: Module): CodeSource {
    const { binary } = module;
    return {
      read: async (at, length) => this.#withOriginals(at, await target.read(at, length)),
      functionAt: (at) => {
        const inFile = module.toFile(at);
        const range = binary.codeRangeAt(inFile);
        if (range === undefined) return undefined;
        const span = { low: module.toTarget(range.low), high: module.toTarget(range.high) };
        return {
          ...span,
          isJumpedToFromOutside: (place) => module.isJumpedToFromOutside(place, span),
          landingPads: binary.landingPadsOf(inFile).map((pad) => module.toTarget(pad)),
          read: (place, size) => readConstant(module, place, size),
          isCode: (place) => module.contains(place),
        };
      },
    };
  }

  /** Code as it was before us: what we have put there is no part of the function. */
  #withOriginals(at: Address, bytes: Uint8Array): Uint8Array {
    for (const { site, original } of this.#placed) {
      original.forEach((byte, index) => {
        const place = Number(site - at) + index;
        if (place >= 0 && place < bytes.length) bytes[place] = byte;
      });
    }
    return bytes;
  }

  /** Patches at the C library's sigaction, so that handlers which the target installs later are chained as well. */
  async #planWatch(
    target: Target,
    presence: Presence,
    around: Around,
    cache: FlowCache,
  ): Promise<PlannedPatch<readonly FaultExit[]>[]> {
    const runtime = await presence.runtime(target);
    const plans: PlannedPatch<readonly FaultExit[]>[] = [];
    for (const module of this.#modules()) {
      const entry = sigactionOf(module);
      const arena = presence.arenaFor(module.code);
      if (entry === undefined || arena === undefined) continue;
      const code = await readSiteCode(this.#codeSource(target, module), entry, cache);
      const body: Body<readonly FaultExit[]> = (emitter) => {
        leadSigaction(emitter, runtime, Object.values(ourSignals));
        return { facts: [] };
      };
      plans.push(planPatch(code, { arena, around: { ...around(entry), whyForbidden: () => undefined }, body }));
    }
    return plans;
  }

  async #make(
    target: Target,
    presence: Presence,
    planned: readonly { patch: PlannedPatch<readonly FaultExit[]>; probe: number }[],
    options: { needsHandlers: boolean; operate: Operate },
  ): Promise<InstalledPatch[]> {
    const { channel } = presence;
    await writeTrampolines(
      target,
      planned.map(({ patch }) => patch),
    );
    // The records come first: whatever happens from here on, a later fastprobe can undo it.
    const patches = planned.map(({ patch, probe }): InstalledPatch => {
      const original = patch.displaced.subarray(0, patch.replacement.length);
      for (const { at, to } of patch.facts) channel.redirects.set(at, addressOf(patch, to));
      if (patch.tactic === 'trap') channel.redirects.set(patch.site, patch.trampoline);
      const record = channel.addPatch({ ...patch, probe, original });
      return { ...patch, probe, original, record };
    });
    const isNew = options.needsHandlers && !presence.hasHandlers;
    const calls = isNew ? await presence.handlerCalls(target) : [];
    try {
      const { mismatches } = await options.operate({ ...installation(patches), calls }, { isLast: !isNew });
      const [first] = mismatches.flatMap((index) => patches[index] ?? []);
      if (first !== undefined) throw codeChanged(first.site);
    } catch (error) {
      for (const { record } of patches) channel.removePatch(record);
      throw error;
    }
    if (isNew) await presence.adaptHandlers(target, options.operate);
    this.#placed.push(...patches);
    return patches;
  }

  /** Takes the patches of a probe out. */
  async remove(target: Target, probe: number, operate: Operate): Promise<void> {
    const patches = this.#placed.filter((patch) => patch.probe === probe);
    const { mismatches } = await operate(removal(patches, returnsOf(patches)));
    const left = await overwritten(target, patches, mismatches);
    this.#placed = this.#placed.filter((patch) => patch.probe !== probe || left.includes(patch));
    for (const patch of patches) {
      if (left.includes(patch)) continue;
      if (patch.tactic === 'trap') this.#presence?.channel.redirects.retire(patch.site);
      this.#presence?.channel.removePatch(patch.record);
    }
    refuseOverwritten(left);
  }

  /** Takes out everything, memory and handlers included. */
  async removeAll(target: Target): Promise<void> {
    const presence = this.#presence;
    if (presence === undefined) return;
    const { left } = await takeOut(target, {
      patches: this.#placed,
      returns: returnsOf(this.#placed),
      actions: () => presence.actions,
      mappings: presence.mappings,
      runtime: presence.runtimeCode,
      scratch: presence.channel.scratch,
    });
    this.#presence = undefined;
    this.#placed = [];
    refuseOverwritten(left);
  }
}

/** Where threads go on that stand in copies of displaced instructions. */
function returnsOf(patches: readonly InstalledPatch[]): Map<Address, Address> {
  return new Map(patches.flatMap((patch) => [...patch.returns]));
}

export function refuseOverwritten(left: readonly Placed[]): void {
  if (left.length === 0) return;
  const sites = left.map(({ site }) => `0x${site.toString(16)}`).join(', ');
  throw new FastprobeError('FASTPROBE_LEFT_BEHIND', `somebody else has changed the code at ${sites} after us`, {
    hint: 'take out what was placed later (a breakpoint of a debugger?) and detach again',
  });
}

/** True when an expression may touch memory that is not there. */
function faults(sites: readonly SiteExpressions[]): boolean {
  const expressions = sites.flatMap(({ condition, captures = [] }) => [condition, ...captures]);
  return expressions.some((expression) => expression !== undefined && mayFault(expression));
}

function addressOf(patch: PlannedPatch, label: FaultExit['to']): Address {
  return (patch.trampoline + BigInt(label.offset ?? 0)) as Address;
}

function arenaOf(presence: Presence, module: Module) {
  const arena = presence.arenaFor(module.code);
  if (arena === undefined) throw new RangeError(`no arena for ${module.path}`);
  return arena;
}

/** Our signals that some thread of the target blocks. */
function blockedSignals(pid: number): OurSignal[] {
  const blocked = signalSets(pid).reduce((set, thread) => set | thread.blocked, 0n);
  return signalNames.filter((name) => (blocked & (1n << BigInt(ourSignals[name] - 1))) !== 0n);
}

function sigactionOf(module: Module): Address | undefined {
  const symbol = module.binary.symbols.named('sigaction').find((each) => each.kind === 'function');
  return symbol === undefined ? undefined : module.toTarget(symbol.address);
}

/** Constants for jump tables. Those of a position-independent module hold no addresses, so that the file is as good as memory. */
function readConstant(module: Module, at: Address, size: number): Uint8Array | undefined {
  if (!module.isConstant(at)) return undefined;
  try {
    return module.binary.readStatic(module.toFile(at), size);
  } catch (error) {
    if (error instanceof FastprobeError) return undefined;
    throw error;
  }
}
