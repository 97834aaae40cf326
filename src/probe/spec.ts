// What a probe is asked to do, and what that comes to at each of its sites.

import { ring } from '../channel/layout.js';
import { FastprobeError } from '../errors.js';
import { kindOf } from '../lang/c-types.js';
import { check, type Typed } from '../lang/check.js';
import { parse } from '../lang/parse.js';
import { scopeAt } from '../lang/scope.js';
import type { LocatedSite } from './location.js';

export interface ProbeSpec {
  /** A location: `queue.c:42`, `func`, `func+0x12`, `0x401234`, `lib.so!func`. */
  readonly at: string;
  /** A C expression: only when it is true it is a hit. */
  readonly when?: string;
  /** C expressions to record at each hit; `'locals'` for the variables in scope, `'nothing'` to count only. */
  readonly capture?: readonly string[] | 'locals' | 'nothing';
  /** Record no more than this many hits. */
  readonly maxHits?: number;
}

/** The expressions of a probe at one site. */
export interface SiteExpressions {
  readonly site: LocatedSite;
  readonly condition: Typed | undefined;
  /** In the order of the probe's names; undefined where a variable does not exist. */
  readonly captures: readonly (Typed | undefined)[] | undefined;
}

export interface CheckedSpec {
  /** What the captured values are called. */
  readonly names: readonly string[];
  readonly sites: readonly SiteExpressions[];
  /** Variables in scope that are not captured, and why. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[];
}

/** Parses and types everything, for every site. */
export function checkSpec(spec: ProbeSpec, sites: readonly LocatedSite[]): CheckedSpec {
  const { capture = 'locals' } = spec;
  const limit = spec.maxHits;
  if (limit !== undefined && (!Number.isSafeInteger(limit) || limit < 1)) {
    throw new FastprobeError('FASTPROBE_BAD_ARGUMENT', `not a number of hits: ${limit}`, {
      hint: 'give a whole number from 1 up',
    });
  }
  const leftOut = new Map<string, string>();
  const names = capture === 'locals' ? localNames(sites, leftOut) : capture === 'nothing' ? [] : capture;
  if (names.length > ring.maximumValues) {
    throw new FastprobeError('FASTPROBE_TOO_MANY', `a hit records ${ring.maximumValues} values, not ${names.length}`, {
      hint: 'use several probes',
    });
  }
  const isOptional = capture === 'locals';
  return {
    names,
    leftOut: [...leftOut].map(([name, reason]) => ({ name, reason })),
    sites: sites.map((site) => ({
      site,
      condition: spec.when === undefined ? undefined : typed(spec.when, site),
      captures:
        capture === 'nothing' ? undefined : names.map((name) => (isOptional ? ifThere(name, site) : typed(name, site))),
    })),
  };
}

function typed(text: string, { module, address }: LocatedSite): Typed {
  const scope = scopeAt(module.binary, module.toFile(address));
  return check(parse(text, scope), scope);
}

/** A variable that may not exist at every site of the line. */
function ifThere(name: string, site: LocatedSite): Typed | undefined {
  try {
    return typed(name, site);
  } catch (error) {
    if (error instanceof FastprobeError) return undefined;
    throw error;
  }
}

/** The variables in scope at some site that can be captured, parameters and innermost ones first. */
function localNames(sites: readonly LocatedSite[], leftOut: Map<string, string>): string[] {
  const names = new Set<string>();
  for (const site of sites) {
    for (const { name, type } of variablesAt(site)) {
      if (names.has(name)) continue;
      const reason = kindOf(type) === undefined ? 'only integers and pointers are captured' : whyNot(name, site);
      if (reason === undefined && names.size < ring.maximumValues) names.add(name);
      else leftOut.set(name, reason ?? 'there are too many');
    }
  }
  for (const name of names) leftOut.delete(name);
  return [...names];
}

function variablesAt({ module, address }: LocatedSite) {
  try {
    return module.binary.variablesAt(module.toFile(address));
  } catch (error) {
    // Without debug information there is nothing to show, which is no reason to refuse to count.
    if (error instanceof FastprobeError && error.code === 'FASTPROBE_DEBUG_INFO_MISSING') return [];
    throw error;
  }
}

function whyNot(name: string, site: LocatedSite): string | undefined {
  try {
    typed(name, site);
    return undefined;
  } catch (error) {
    if (error instanceof FastprobeError) return error.message;
    throw error;
  }
}
