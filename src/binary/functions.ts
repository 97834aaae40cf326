// Functions by name and by address, where their bodies begin, and the copies of them that were inlined.

import { type Address, address } from '../address.js';
import { FastprobeError } from '../errors.js';
import { at } from './constants.js';
import type { DebugInfo } from './debug-info.js';
import type { Lines, Site } from './lines.js';
import { indexNames, type NameIndex } from './names.js';
import { type Range, rangesOf } from './ranges.js';
import { tombstone } from './reader.js';
import { didYouMean } from './suggestions.js';
import type { ElfSymbol, Symbols } from './symbols.js';
import type { FunctionEntry, FunctionFinder } from './unit-functions.js';

/** Addresses from `low` up to, not including, `high`. */
export interface AddressRange {
  readonly low: Address;
  readonly high: Address;
}

/** A function that has code of its own. */
export interface FunctionFacts {
  /** As written in the source; for one known only from the symbol table, the symbol. */
  readonly name: string;
  /** The symbol at its entry, which tells clones (`f.constprop.0`) and overloads apart. */
  readonly symbol: string | undefined;
  /** An `ifunc`'s code only chooses among implementations. */
  readonly kind: 'function' | 'ifunc';
  /** Where calls arrive. */
  readonly entry: Address;
  /** After the prologue: where the variables of code that is not optimised can be read. The entry if there is no prologue. */
  readonly bodyStart: Address;
  /** All its code; more than one range if a part was split off as unlikely. */
  readonly ranges: readonly AddressRange[];
  readonly file: string | undefined;
  readonly line: number | undefined;
  readonly source: 'debug-info' | 'symbol-table';
}

/** One place where a function was inlined. */
export interface InlinedCopy {
  readonly name: string;
  readonly entry: Address;
  readonly ranges: readonly AddressRange[];
  readonly callFile: string | undefined;
  readonly callLine: number | undefined;
  /** The function in whose code the copy is. */
  readonly within: string | undefined;
}

export function toAddressRanges(ranges: readonly Range[]): AddressRange[] {
  return ranges.map(({ low, high }) => ({ low: address(low), high: address(high) }));
}

/** Answers questions about functions. Holds the index of names once a name was asked for. */
export class Functions {
  private readonly info: DebugInfo;
  private readonly symbols: Symbols;
  private readonly finder: FunctionFinder;
  private readonly lines: Lines;
  private index: NameIndex | undefined;

  constructor(info: DebugInfo, symbols: Symbols, finder: FunctionFinder, lines: Lines) {
    this.info = info;
    this.symbols = symbols;
    this.finder = finder;
    this.lines = lines;
  }

  get names(): NameIndex {
    this.index ??= indexNames(this.info);
    return this.index;
  }

  /** Every function of this name with code of its own; none if all copies were inlined. Throws if nothing has the name. */
  named(name: string): FunctionFacts[] {
    const entries = this.entriesNamed(name);
    const found = entries.flatMap((offset) => {
      const entry = this.finder.ofUnit(this.info.unitOf(offset)).list.find((candidate) => candidate.offset === offset);
      return entry === undefined ? [] : [this.factsOf(entry)];
    });
    const known = new Set(found.map((facts) => facts.entry));
    for (const symbol of this.symbols.named(name)) {
      if ((symbol.kind !== 'function' && symbol.kind !== 'ifunc') || known.has(symbol.address)) continue;
      known.add(symbol.address);
      found.push(this.factsOfSymbol(symbol));
    }
    if (found.length === 0 && entries.length === 0) throw this.unknown(name);
    return found.sort((a, b) => (a.entry < b.entry ? -1 : 1));
  }

  /** The entries of functions of this name, abstract ones too. */
  private entriesNamed(name: string): readonly number[] {
    return this.names.functions.get(name) ?? [];
  }

  inlinedCopiesOf(name: string): InlinedCopy[] {
    const origins = new Set(this.entriesNamed(name));
    return [...origins]
      .flatMap((origin) => this.names.inlined.get(origin) ?? [])
      .flatMap((offset) => this.inlinedCopy(offset) ?? [])
      .sort((a, b) => (a.entry < b.entry ? -1 : 1));
  }

  private inlinedCopy(offset: number): InlinedCopy | undefined {
    const die = this.info.dieAt(offset);
    const ranges = rangesOf(die);
    const first = ranges[0];
    if (first === undefined) return undefined;
    const entry = die.address(at.entryPc) ?? first.low;
    const within = this.finder.at(first.low);
    const callFile = die.unsigned(at.callFile);
    return {
      name: this.info.nameOf(die) ?? '',
      entry: address(entry),
      ranges: toAddressRanges(ranges),
      callFile: callFile === undefined ? undefined : this.info.lineTableOf(die.unit)?.files[callFile],
      callLine: die.unsigned(at.callLine),
      within: within === undefined ? undefined : this.info.nameOf(this.info.dieAt(within.offset)),
    };
  }

  /** The inlined functions around an address, innermost first. */
  inlinedAt(at: number): InlinedCopy[] {
    return this.finder
      .scopesAt(at)
      .filter((scope) => scope.kind === 'inlined')
      .flatMap((scope) => this.inlinedCopy(scope.offset) ?? [])
      .reverse();
  }

  at(at: number): FunctionFacts | undefined {
    const entry = this.finder.at(at);
    if (entry !== undefined) return this.factsOf(entry);
    const symbol = this.symbols.functionAt(address(at));
    return symbol && this.factsOfSymbol(symbol);
  }

  /** Where the body of every function of this name begins, and of every inlined copy. */
  sitesOf(name: string): Site[] {
    const places = [
      ...this.named(name).map((facts) => facts.bodyStart),
      ...this.inlinedCopiesOf(name).map((copy) => copy.entry),
    ];
    return [...new Set(places)].sort((a, b) => (a < b ? -1 : 1)).map((place) => this.lines.siteAtPlace(Number(place)));
  }

  private factsOf(entry: FunctionEntry): FunctionFacts {
    const die = this.info.dieAt(entry.offset);
    const at = address(entry.entry);
    const symbol = this.symbols.functionAt(at);
    const isHere = symbol?.address === at;
    return {
      name: this.info.nameOf(die) ?? symbol?.name ?? '',
      symbol: isHere ? symbol?.name : undefined,
      kind: isHere && symbol?.kind === 'ifunc' ? 'ifunc' : 'function',
      entry: at,
      bodyStart: address(this.lines.bodyStart(entry)),
      ranges: toAddressRanges(entry.ranges),
      ...this.info.declarationOf(die),
      source: 'debug-info',
    };
  }

  private factsOfSymbol(symbol: ElfSymbol): FunctionFacts {
    const entry = symbol.address < tombstone ? this.finder.at(Number(symbol.address)) : undefined;
    if (entry?.entry === Number(symbol.address)) return this.factsOf(entry);
    const { name, address: low } = symbol;
    return {
      name,
      symbol: name,
      kind: symbol.kind === 'ifunc' ? 'ifunc' : 'function',
      entry: low,
      bodyStart: low,
      ranges: symbol.size === 0 ? [] : [{ low, high: address(BigInt.asUintN(64, low + BigInt(symbol.size))) }],
      file: undefined,
      line: undefined,
      source: 'symbol-table',
    };
  }

  private unknown(name: string): FastprobeError {
    const symbols = this.symbols.list().filter((symbol) => symbol.kind === 'function' || symbol.kind === 'ifunc');
    const candidates = [...this.names.functions.keys(), ...symbols.map((symbol) => symbol.name)];
    const otherwise =
      candidates.length === 0
        ? 'the binary was stripped of names: install its debug package, or give an address'
        : 'static functions are only known with debug information (-g) or a symbol table; C++ names may need their namespace';
    return new FastprobeError('FASTPROBE_FUNCTION_UNKNOWN', `${this.info.fileName} has no function '${name}'`, {
      hint: didYouMean(name, candidates, otherwise),
    });
  }
}
