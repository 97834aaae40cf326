// The symbol tables .symtab and .dynsym: names, addresses and sizes of functions and data.

import { type Address, address } from '../address.js';
import { type Elf, type Section, sectionType } from './elf.js';
import { Reader, textAt } from './reader.js';

export interface ElfSymbol {
  /** Without the version that linkers write after an `@`. */
  readonly name: string;
  readonly version: string | undefined;
  readonly address: Address;
  /** 0 when the assembler gave none. */
  readonly size: number;
  /** An `ifunc`'s address is its resolver's: what a call reaches is known only in a process. */
  readonly kind: 'function' | 'ifunc' | 'data' | 'tls' | 'other';
  readonly binding: 'local' | 'global' | 'weak';
  readonly table: '.symtab' | '.dynsym';
}

const kinds: Record<number, ElfSymbol['kind']> = { 1: 'data', 2: 'function', 6: 'tls', 10: 'ifunc' };
const bindings: Record<number, ElfSymbol['binding']> = { 0: 'local', 1: 'global', 2: 'weak', 10: 'global' };

/** The defined symbols of a table; section and file names are left out. */
function readTable(elf: Elf, section: Section, table: ElfSymbol['table']): ElfSymbol[] {
  const bytes = elf.contentsOf(section);
  const stringSection = elf.sections[section.link];
  const strings = stringSection === undefined ? undefined : elf.contentsOf(stringSection);
  if (bytes === undefined || strings === undefined) return [];
  const reader = new Reader(bytes, section.name);
  const symbols: ElfSymbol[] = [];
  while (reader.position + 24 <= bytes.length) {
    const nameOffset = reader.u32();
    const info = reader.u8();
    reader.skip(1);
    const sectionIndex = reader.u16();
    const value = reader.u64();
    const size = reader.u64Number();
    const type = info & 0xf;
    if (sectionIndex === 0 || type === 3 || type === 4 || nameOffset === 0) continue;
    const text = textAt(strings, stringSection?.name ?? '.strtab', nameOffset);
    const versionAt = text.indexOf('@', 1);
    symbols.push({
      name: versionAt < 0 ? text : text.slice(0, versionAt),
      version: versionAt < 0 ? undefined : text.slice(text.lastIndexOf('@') + 1),
      address: address(value),
      size,
      kind: kinds[type] ?? 'other',
      binding: bindings[info >> 4] ?? 'local',
      table,
    });
  }
  return symbols;
}

/** The symbols of a file. Reads the tables when first asked; holds them. */
export class Symbols {
  private readonly files: readonly Elf[];
  private all: readonly ElfSymbol[] | undefined;
  private byName: Map<string, ElfSymbol[]> | undefined;
  private functions: readonly ElfSymbol[] | undefined;

  /** `files` are the binary and its separate debug file; the first that has a .symtab is believed. */
  constructor(files: readonly Elf[]) {
    this.files = files;
  }

  /** Every symbol; one that both tables have comes once. */
  list(): readonly ElfSymbol[] {
    if (this.all !== undefined) return this.all;
    const found: ElfSymbol[] = [];
    const seen = new Set<string>();
    for (const [name, type] of [
      ['.symtab', sectionType.symbolTable],
      ['.dynsym', sectionType.dynamicSymbols],
    ] as const) {
      for (const file of this.files) {
        const section = file.sections.find((candidate) => candidate.type === type);
        const symbols = section === undefined ? [] : readTable(file, section, name);
        if (symbols.length === 0) continue;
        for (const symbol of symbols) {
          const key = `${symbol.name}\0${symbol.address}`;
          if (name === '.dynsym' && seen.has(key)) continue;
          seen.add(key);
          found.push(symbol);
        }
        break;
      }
    }
    this.all = found;
    return found;
  }

  named(name: string): readonly ElfSymbol[] {
    if (this.byName === undefined) {
      this.byName = new Map();
      for (const symbol of this.list()) {
        const same = this.byName.get(symbol.name);
        if (same === undefined) this.byName.set(symbol.name, [symbol]);
        else same.push(symbol);
      }
    }
    return this.byName.get(name) ?? [];
  }

  /** The function whose bytes include `at`. Of several names for one address the global one is given. */
  functionAt(at: Address): ElfSymbol | undefined {
    this.functions ??= this.list()
      .filter((symbol) => symbol.kind === 'function' || symbol.kind === 'ifunc')
      .sort((a, b) => (a.address < b.address ? -1 : a.address > b.address ? 1 : rank(a) - rank(b)));
    const sorted = this.functions;
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const symbol = sorted[middle];
      if (symbol !== undefined && symbol.address <= at) low = middle + 1;
      else high = middle;
    }
    // Look back a little: aliases of other sizes and nested labels may begin between a function's entry and `at`.
    let best: ElfSymbol | undefined;
    for (let index = low - 1; index >= 0 && index >= low - 16; index--) {
      const symbol = sorted[index];
      if (symbol === undefined || (best !== undefined && symbol.address < best.address)) break;
      if (at < symbol.address + BigInt(symbol.size) || at === symbol.address) best = symbol;
    }
    return best;
  }
}

function rank(symbol: ElfSymbol): number {
  return symbol.binding === 'global' ? 0 : symbol.binding === 'weak' ? 1 : 2;
}
