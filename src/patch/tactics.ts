// The tactics, in the order in which they are tried. Each is a small function from a site to what it would displace, or to the
// reason why it can't.

import type { Instruction } from '../isa/instruction.js';
import type { SiteCode } from './site-code.js';
import { plain } from './tactics/plain.js';
import { relocate } from './tactics/relocate.js';
import { trap } from './tactics/trap.js';

export type TacticName = 'plain' | 'relocate' | 'trap';

/** What the planner must respect. */
export interface Surroundings {
  /** True when bytes of the range belong to another patch, or are another site's. */
  isTaken(low: bigint, high: bigint): boolean;
  /** Why bytes of the range must stay as they are, if they must. */
  whyForbidden(low: bigint, high: bigint): string | undefined;
  /** Why a trap can't be used in this target, if it can't. */
  readonly noTrap: string | undefined;
}

/** Instructions to displace, all of whose bytes but the first `size` stay as they are. */
export interface Placement {
  readonly kind: 'placement';
  readonly displaced: readonly Instruction[];
  /** How many bytes change. */
  readonly size: number;
}

export interface NotPossible {
  readonly kind: 'not-possible';
  readonly reason: string;
}

export type Tactic = (code: SiteCode, around: Surroundings) => Placement | NotPossible;

export const tactics: readonly { readonly name: TacticName; readonly place: Tactic }[] = [
  { name: 'plain', place: plain },
  { name: 'relocate', place: relocate },
  { name: 'trap', place: trap },
];

export function notPossible(reason: string): NotPossible {
  return { kind: 'not-possible', reason };
}

/** The length of `jmp rel32`. */
export const jumpSize = 5;
