// The code around a site: the whole function, decoded and analysed, from the target's memory.

import { type Address, formatAddress, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import { decode, loadDecoder, maximumLength } from '../isa/decode.js';
import { analyseFlow, type FlowOptions, type FunctionFlow } from '../isa/flow.js';
import type { Instruction } from '../isa/instruction.js';
import { type Dead, Liveness, nothingDead } from '../isa/liveness.js';
import type { Span } from './space.js';

/** What is known of the code around a site. */
export interface SiteCode {
  readonly site: Address;
  /** From the site on, as far as the function goes; the first one is the site's. */
  readonly instructions: readonly Instruction[];
  /** What the site's first instruction finds unused. */
  readonly dead: Dead;
  /** Whether a jump can land on an address other than by running into it. */
  canBeJumpedTo(at: Address): 'yes' | 'no' | 'unknown';
}

/** Functions analysed in one planning, by their start. */
export type FlowCache = Map<Address, { flow: FunctionFlow; liveness: Liveness }>;

/** A function, and what helps to analyse it. */
export interface KnownFunction extends Span, Pick<FlowOptions, 'landingPads' | 'read' | 'isCode' | 'isImportSlot'> {
  /** True when code outside of the function may jump to an address in it. */
  isJumpedToFromOutside(at: Address): boolean;
}

export interface CodeSource {
  /** The function that has the address, if anyone knows where it begins and ends. */
  functionAt(at: Address): KnownFunction | undefined;
  /** The target's memory. */
  read(at: Address, length: number): Promise<Uint8Array>;
}

/** Reads and analyses the code around a site. */
export async function readSiteCode(source: CodeSource, site: Address, cache: FlowCache): Promise<SiteCode> {
  await loadDecoder();
  const around = source.functionAt(site);
  if (around === undefined) return aloneAt(site, await source.read(site, maximumLength * 2));
  let analysed = cache.get(around.low);
  if (analysed === undefined) {
    const bytes = await source.read(around.low, Number(around.high - around.low));
    const flow = analyseFlow(bytes, around.low, around);
    analysed = { flow, liveness: new Liveness(flow) };
    cache.set(around.low, analysed);
  }
  const { flow, liveness } = analysed;
  const first = flow.instructions.findIndex((instruction) => instruction.address === site);
  if (first < 0) {
    throw new FastprobeError(
      'FASTPROBE_NOT_AN_INSTRUCTION',
      `${formatAddress(site)} is in the middle of an instruction, or its function could not be decoded up to there`,
      { hint: 'give a line or a function instead of an address' },
    );
  }
  return {
    site,
    instructions: flow.instructions.slice(first),
    dead: liveness.deadBefore(site),
    canBeJumpedTo: (at) => (around.isJumpedToFromOutside(at) ? 'yes' : flow.canBeJumpedTo(at)),
  };
}

/** Code of which nothing but its bytes is known: everything may be in use, and jumped to. */
function aloneAt(site: Address, bytes: Uint8Array): SiteCode {
  return {
    site,
    instructions: decode(bytes, site),
    dead: nothingDead,
    canBeJumpedTo: () => 'unknown',
  };
}

/** The bytes of consecutive instructions. */
export function bytesOf(instructions: readonly Instruction[]): Uint8Array {
  return Buffer.concat(instructions.map((instruction) => instruction.bytes));
}

export function spanOf(instructions: readonly Instruction[]): Span {
  const [first] = instructions;
  const last = instructions.at(-1);
  if (first === undefined || last === undefined) throw new RangeError('no instructions');
  return { low: first.address, high: offsetBy(last.address, last.length) };
}
