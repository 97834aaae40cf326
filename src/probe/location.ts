// Locations: what the user says, and the sites it comes to in the modules of a target.

import { type Address, address, formatAddress, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import type { Module } from './modules.js';

/** A location, taken apart. */
export type Location = { readonly module: string | undefined } & (
  | { readonly kind: 'line'; readonly file: string; readonly line: number }
  | { readonly kind: 'function'; readonly name: string; readonly offset: number | undefined }
  | { readonly kind: 'address'; readonly address: Address }
);

/** Understands `file.c:42`, `func`, `func+0x12`, `0x401234`, and each of them after `lib.so!`. */
export function parseLocation(text: string): Location {
  const mark = text.lastIndexOf('!');
  const module = mark < 0 ? undefined : text.slice(0, mark);
  const rest = text.slice(mark + 1).trim();
  const line = /^(.+):(\d+)$/.exec(rest);
  if (line !== null) return { module, kind: 'line', file: line[1] ?? '', line: Number(line[2]) };
  if (/^0x[0-9a-f]{1,16}$/i.test(rest)) return { module, kind: 'address', address: address(rest) };
  if (/@return$/.test(rest)) {
    throw syntaxError(text, 'probes at returns are not there yet', 'probe the line of the return statement instead');
  }
  const named = /^([^\s+:]+(?:::[^\s+:]+)*)(?:\+(0x[0-9a-f]+|\d+))?$/i.exec(rest);
  if (named === null) {
    throw syntaxError(
      text,
      'not a location',
      'write file.c:42, function, function+0x12, 0x401234 or library.so!function',
    );
  }
  return {
    module,
    kind: 'function',
    name: named[1] ?? '',
    offset: named[2] === undefined ? undefined : Number(named[2]),
  };
}

function syntaxError(text: string, what: string, hint: string): FastprobeError {
  return new FastprobeError('FASTPROBE_LOCATION_SYNTAX', `'${text}': ${what}`, { hint });
}

/** One address that a location came to. */
export interface LocatedSite {
  readonly address: Address;
  readonly module: Module;
  readonly function: string | undefined;
  readonly file: string | undefined;
  readonly line: number | undefined;
}

/**
 * The sites of a location. The program itself is asked first, then its libraries; the first module that knows the
 * function or line is the one that is meant, unless the location names another.
 */
export function locate(text: string, modules: readonly Module[]): LocatedSite[] {
  const location = parseLocation(text);
  const candidates = modulesNamed(location.module, modules, text);
  if (location.kind === 'address') return [siteAt(location.address, candidates)];
  let refusal: unknown;
  for (const module of candidates) {
    try {
      const found = location.kind === 'line' ? sitesOfLine(module, location) : sitesOfFunction(module, location);
      if (found.length > 0) return found;
    } catch (error) {
      // The program's own refusal is the one that helps; that a library does not know the name says little.
      refusal ??= error;
    }
  }
  if (refusal instanceof FastprobeError) throw refusal;
  throw new FastprobeError('FASTPROBE_LOCATION_UNKNOWN', `no module of the target knows '${text}'`, {
    hint: 'check the spelling; for a line, the program must be compiled with -g',
  });
}

function modulesNamed(name: string | undefined, modules: readonly Module[], text: string): readonly Module[] {
  if (name === undefined) return modules;
  const found = modules.filter(
    (module) => module.name === name || module.path === name || module.name.startsWith(name),
  );
  if (found.length > 0) return found;
  throw new FastprobeError('FASTPROBE_LOCATION_UNKNOWN', `'${text}': the target has no module '${name}'`, {
    hint: `it has ${modules.map((module) => module.name).join(', ')}`,
  });
}

function siteAt(at: Address, modules: readonly Module[]): LocatedSite {
  const module = modules.find((each) => each.contains(at));
  if (module === undefined) {
    throw new FastprobeError('FASTPROBE_LOCATION_UNKNOWN', `${formatAddress(at)} is not in the code of a file`, {
      hint: 'code that the kernel brings (vdso) or that was made at run time (JIT) is not probed',
    });
  }
  const inFile = module.toFile(at);
  const line = module.binary.lineAt(inFile);
  const name = module.binary.functionAt(inFile)?.name;
  return { address: at, module, function: name, file: line?.file, line: line?.line };
}

function sitesOfLine(module: Module, location: { file: string; line: number }): LocatedSite[] {
  return module.binary.sitesOfLine(location.file, location.line).sites.map((site) => ({
    address: module.toTarget(site.address),
    module,
    function: site.functions[0],
    file: site.file,
    line: site.line,
  }));
}

function sitesOfFunction(module: Module, location: { name: string; offset: number | undefined }): LocatedSite[] {
  if (location.offset !== undefined) {
    const offset = location.offset;
    return module.binary
      .functionsNamed(location.name)
      .map((found) => siteAt(module.toTarget(offsetBy(found.entry, offset)), [module]));
  }
  const functions = module.binary.functionsNamed(location.name);
  if (functions.some((found) => found.kind === 'ifunc')) {
    throw new FastprobeError(
      'FASTPROBE_LOCATION_UNKNOWN',
      `${location.name} is chosen among implementations when the program starts (ifunc)`,
      { hint: 'give the name of the implementation, such as __memcpy_avx_unaligned, or its address' },
    );
  }
  return module.binary.sitesOfFunction(location.name).map((site) => ({
    address: module.toTarget(site.address),
    module,
    function: site.functions[0] ?? location.name,
    file: site.file,
    line: site.line,
  }));
}
