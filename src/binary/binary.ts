// The door of this layer: one program or shared library, its symbols and debug information, and the questions about them.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Address, address, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import { type DebugFileSearch, findDebugFile } from './debug-file.js';
import { DebugInfo } from './debug-info.js';
import { Elf, type Section, type Segment } from './elf.js';
import { type CfaRule, Frames } from './frames.js';
import { type AddressRange, type FunctionFacts, Functions, type InlinedCopy } from './functions.js';
import { type LineSites, Lines, type Site, type SourceLine } from './lines.js';
import { Symbols } from './symbols.js';
import { type Type, Types } from './types.js';
import { FunctionFinder } from './unit-functions.js';
import { type Variable, Variables } from './variables.js';

export interface OpenOptions {
  /** The directory that the target takes for `/`, such as `/proc/4242/root`. `path` is then looked up under it. */
  readonly root?: string;
  /** Where separate debug files are kept. */
  readonly debugDirectories?: readonly string[];
}

/**
 * Opens a program or shared library. Only its headers are read; the rest follows when a question needs it.
 *
 * ```ts
 * const binary = openBinary('/usr/bin/server');
 * const { sites } = binary.sitesOfLine('queue.c', 42);
 * ```
 */
export function openBinary(path: string, options: OpenOptions = {}): Binary {
  const root = options.root ?? '/';
  const place = root === '/' ? path : join(root, path);
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(place);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new FastprobeError('FASTPROBE_BINARY_UNREADABLE', `${place} can't be read: ${why}`, {
      hint: 'check the path and that you may read the file; for a process in a container give its root directory',
      cause,
    });
  }
  const elf = new Elf(bytes, path);
  return new Binary(elf, { root, directories: options.debugDirectories ?? ['/usr/lib/debug'] });
}

/** What answers the questions, made when the first one is asked: that is when a separate debug file is looked for. */
function makeParts(elf: Elf, search: DebugFileSearch) {
  const hasOwn = elf.section('.debug_info') !== undefined;
  const separate = hasOwn ? undefined : findDebugFile(elf, elf.name, search);
  const symbols = new Symbols(separate === undefined ? [elf] : [elf, separate]);
  const info = new DebugInfo(separate ?? elf);
  const finder = new FunctionFinder(info);
  const lines = new Lines(info, elf, finder);
  const functions = new Functions(info, symbols, finder, lines);
  const types = new Types(info, () => functions.names);
  const frames = new Frames(elf, separate ?? elf);
  const variables = new Variables({ code: elf, info, symbols, finder, lines, functions, frames, types });
  return { info, symbols, lines, functions, types, frames, variables };
}

/**
 * One binary. All addresses are file virtual addresses: for a process add {@link Binary.loadBias}.
 * Nothing is parsed before it is asked for, and what was parsed is kept.
 */
export class Binary {
  readonly path: string;
  private readonly elf: Elf;
  private readonly search: DebugFileSearch;
  private parts: ReturnType<typeof makeParts> | undefined;

  constructor(elf: Elf, search: DebugFileSearch) {
    this.path = elf.name;
    this.elf = elf;
    this.search = search;
  }

  private get read() {
    this.parts ??= makeParts(this.elf, this.search);
    return this.parts;
  }

  get buildId(): string | undefined {
    return this.elf.buildId;
  }

  get isPie(): boolean {
    return this.elf.isPie;
  }

  get segments(): readonly Segment[] {
    return this.elf.segments;
  }

  get symbols(): Symbols {
    return this.read.symbols;
  }

  sectionOf(at: Address): Section | undefined {
    return this.elf.sectionOf(at);
  }

  sectionNamed(name: string): Section | undefined {
    return this.elf.section(name);
  }

  /** See {@link Elf.loadBias}. */
  loadBias(mappingStart: Address, fileOffset: number): bigint {
    return this.elf.loadBias(mappingStart, fileOffset);
  }

  /** The bytes of the file at an address: instructions and initial data, without a process. */
  readStatic(at: Address, length: number): Uint8Array {
    return this.elf.readStatic(at, length);
  }

  /** The sites of `file:line`; `file` is a path or the end of one. */
  sitesOfLine(file: string, line: number): LineSites {
    return this.read.lines.sitesOfLine(file, line);
  }

  lineAt(at: Address): SourceLine | undefined {
    return this.read.lines.lineAt(Number(at));
  }

  /** Every function of this name that has code of its own. */
  functionsNamed(name: string): FunctionFacts[] {
    return this.read.functions.named(name);
  }

  /** Every place where a function of this name was inlined. */
  inlinedCopiesOf(name: string): InlinedCopy[] {
    return this.read.functions.inlinedCopiesOf(name);
  }

  functionAt(at: Address): FunctionFacts | undefined {
    return this.read.functions.at(Number(at));
  }

  /** The inlined functions around an address, innermost first. */
  inlinedAt(at: Address): InlinedCopy[] {
    return this.read.functions.inlinedAt(Number(at));
  }

  /** Where a function's body begins, for all functions of this name and all inlined copies of it. */
  sitesOfFunction(name: string): Site[] {
    return this.read.functions.sitesOf(name);
  }

  /**
   * The parameters and locals visible at an address, innermost first, each with its location there.
   * `frame` 0 is the innermost function, 1 the one into which that was inlined, and so on.
   */
  variablesAt(at: Address, options: { readonly frame?: number } = {}): Variable[] {
    return this.read.variables.localsAt(Number(at), options.frame ?? 0);
  }

  /** The global and static variables of the unit that has the code at an address. */
  globalsAt(at: Address): Variable[] {
    return this.read.variables.globalsOfUnitAt(Number(at));
  }

  /** The variable that a name means at an address: a local, a global of the unit, or one of another unit. */
  variableAt(at: Address, name: string, options: { readonly frame?: number } = {}): Variable {
    return this.read.variables.named(Number(at), name, options.frame ?? 0);
  }

  /**
   * The type of this name: `int`, `queue_t`, `struct item` or `geometry::Square`. Where source files use one name for
   * different types, the one that code at `near` would mean.
   */
  typeNamed(name: string, options: { readonly near?: Address } = {}): Type {
    const { info, types } = this.read;
    return types.named(name, options.near === undefined ? undefined : info.unitAt(Number(options.near)));
  }

  /** How to find the frame address (CFA) at an instruction. */
  cfaAt(at: Address): CfaRule {
    return this.read.frames.cfaAt(Number(at));
  }

  /**
   * The code around an address that begins and ends with it, such as a function: by frame information, else by the sizes of
   * symbols, else by debug information. A part that was split off (`f.cold`) is a range of its own.
   */
  codeRangeAt(at: Address): AddressRange | undefined {
    const { frames, functions, symbols } = this.read;
    const entry = frames.entryAt(Number(at));
    if (entry !== undefined) return { low: address(entry.low), high: address(entry.high) };
    const symbol = symbols.functionAt(at);
    if (symbol !== undefined && symbol.size > 0) {
      return { low: symbol.address, high: offsetBy(symbol.address, symbol.size) };
    }
    return functions.at(Number(at))?.ranges.find((range) => at >= range.low && at < range.high);
  }

  /** Where exceptions re-enter the code of {@link codeRangeAt}: no instruction jumps there. Empty if they do not. */
  landingPadsOf(at: Address): Address[] {
    return this.read.frames.landingPadsAt(Number(at)).map((pad) => address(pad));
  }
}
