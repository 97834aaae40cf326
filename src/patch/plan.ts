// Planning one patch: which tactic a site gets, and the trampoline that goes with it.

import { type Address, formatAddress, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import { Emitter, reaches } from '../isa/emit.js';
import { endOf } from '../isa/instruction.js';
import { relocateInto } from '../isa/relocate.js';
import type { Arena } from './arena.js';
import { bytesOf, type SiteCode } from './site-code.js';
import { type Placement, type Surroundings, type TacticName, tactics } from './tactics.js';

/** Where a thread goes on that stands at the key. */
type Moves = ReadonlyMap<Address, Address>;

/** A patch as it is to be made; nothing in the target has changed yet. */
export interface PlannedPatch<T = unknown> {
  readonly site: Address;
  readonly tactic: TacticName;
  /** Tactics that come earlier, and why each of them can't be used. */
  readonly passedOver: readonly { readonly tactic: TacticName; readonly reason: string }[];
  /** The bytes of all displaced instructions as they were when the plan was made. */
  readonly displaced: Uint8Array;
  /** What the first bytes of those become. */
  readonly replacement: Uint8Array;
  readonly trampoline: Address;
  readonly code: Uint8Array;
  /** Where a thread goes on that stands at a key: among the displaced bytes, when the patch is made, … */
  readonly moves: Moves;
  /** … and among their copies, when it is undone. */
  readonly returns: Moves;
  /** What the body has to say about itself. */
  readonly facts: T;
}

/**
 * Emits what the trampoline does before the displaced instructions. It is asked again for every tactic that is tried; what
 * it returns is of use once the code is finished.
 */
export type Body<T> = (code: Emitter, site: SiteCode) => { readonly facts: T; readonly emitColdPart?: () => void };

export interface PlanOptions<T> {
  readonly arena: Arena;
  readonly around: Surroundings & {
    /** A hardware shadow stack is active, which does not forgive an emulated call. */
    readonly hasShadowStack: boolean;
  };
  readonly body: Body<T>;
}

/** Takes the first tactic that can be used, and the room for its trampoline. */
export function planPatch<T>(code: SiteCode, options: PlanOptions<T>): PlannedPatch<T> {
  const passedOver: { tactic: TacticName; reason: string }[] = [];
  for (const { name, place } of tactics) {
    const placement = place(code, options.around);
    const made = placement.kind === 'placement' ? build(code, name, placement, options) : placement.reason;
    if (typeof made !== 'string') return { ...made, passedOver };
    passedOver.push({ tactic: name, reason: made });
  }
  const reasons = passedOver.map(({ tactic, reason }) => `${tactic}: ${reason}`).join('; ');
  throw new FastprobeError(
    'FASTPROBE_SITE_REFUSED',
    `no probe can be placed at ${formatAddress(code.site)}: ${reasons}`,
    {
      hint: 'choose a line or an instruction before or behind it',
    },
  );
}

/** The patch, or why it can't be. */
function build<T>(
  site: SiteCode,
  tactic: TacticName,
  placement: Placement,
  { arena, around, body }: PlanOptions<T>,
): Omit<PlannedPatch<T>, 'passedOver'> | string {
  const trampoline = arena.next;
  const code = new Emitter(trampoline);
  const { facts, emitColdPart } = body(code, site);
  const start = code.label('trampoline');
  start.offset = 0;
  // A branch among the displaced instructions back to the site passes the probe again.
  const moved = relocateInto(code, placement.displaced, { aim: new Map([[site.site, start]]) });
  if (moved.kind === 'unmovable') return moved.message;
  if (moved.emulatesCall && around.hasShadowStack) return 'it would emulate a call, and a shadow stack is active';
  if (moved.hasTrap) return 'the instruction is there to raise a signal';
  const last = placement.displaced.at(-1);
  if (last === undefined) return 'there is no instruction';
  const forbidden = around.whyForbidden(site.site, endOf(last));
  if (forbidden !== undefined) return forbidden;
  if (moved.fallsThrough) code.jump(endOf(last));
  emitColdPart?.();
  const bytes = code.finish();
  if (!reaches(offsetBy(site.site, 5), trampoline)) return 'its trampoline would be out of reach';
  arena.take(bytes.length);
  const moves = new Map(moved.map);
  moves.delete(site.site);
  // The kernel may set a thread back by the length of `syscall`: that must then be the copy.
  for (const instruction of placement.displaced) {
    const copy = moved.map.get(instruction.address);
    if (instruction.flow === 'syscall' && copy !== undefined) {
      moves.set(endOf(instruction), offsetBy(copy, instruction.length));
    }
  }
  const returns = new Map([...moves, ...moved.map].map(([original, copy]) => [copy, original]));
  return {
    site: site.site,
    tactic,
    displaced: bytesOf(placement.displaced),
    replacement: tactic === 'trap' ? Uint8Array.of(0xcc) : jumpFrom(site.site, trampoline),
    trampoline,
    code: bytes,
    moves,
    returns,
    facts,
  };
}

function jumpFrom(from: Address, to: Address): Uint8Array {
  const code = new Emitter(from);
  code.jump(to);
  return code.finish();
}
