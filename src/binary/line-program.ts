// Running one line-number program of .debug_line (DWARF 2 to 5): its files, and its rows in columns.

import { FastprobeError } from '../errors.js';
import { skipForm } from './abbreviations.js';
import { form } from './constants.js';
import { readText } from './die.js';
import type { Reader } from './reader.js';
import type { Unit } from './units.js';

export const rowFlag = { statement: 1, endSequence: 2, prologueEnd: 4, discriminated: 8 } as const;

/** The rows of a program in the order it makes them. Columns, because a large program has millions. */
export interface LineRows {
  readonly count: number;
  readonly addresses: Float64Array;
  /** Indexes into the table's files. */
  readonly files: Uint32Array;
  readonly lines: Uint32Array;
  /** Bits of {@link rowFlag}. */
  readonly flags: Uint8Array;
}

/** The header of a line-number program, and where the program is. */
export interface LineHeader {
  readonly offset: number;
  readonly version: number;
  /** Full paths, made from directory and name, by the index that rows and DW_AT_decl_file use. */
  readonly files: readonly string[];
  readonly minimumLength: number;
  readonly defaultIsStatement: boolean;
  readonly lineBase: number;
  readonly lineRange: number;
  readonly opcodeBase: number;
  readonly operandCounts: readonly number[];
  readonly program: number;
  readonly end: number;
}

/** `directory/name` with `.` and `..` taken out as a compiler's relative names have them. */
export function joinPath(directory: string, name: string): string {
  const text = name.startsWith('/') || directory === '' ? name : `${directory}/${name}`;
  if (!text.includes('/.') && !text.includes('//') && !text.startsWith('./')) return text;
  const parts: string[] = [];
  for (const part of text.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..' && parts.length > 0 && parts.at(-1) !== '..') parts.pop();
    else parts.push(part);
  }
  return (text.startsWith('/') ? '/' : '') + parts.join('/');
}

export function readLineHeader(unit: Unit, offset: number): LineHeader {
  const reader = unit.sections.reader('.debug_line', offset);
  let length = reader.u32();
  const offsetSize = length === 0xffffffff ? 8 : 4;
  if (offsetSize === 8) length = reader.u64Number();
  const end = reader.position + length;
  if (end > reader.end) throw reader.fail('a line table is longer than the section');
  const version = reader.u16();
  if (version < 2 || version > 5) {
    throw new FastprobeError('FASTPROBE_DEBUG_INFO_UNSUPPORTED', `a line table has version ${version}`, {
      hint: 'compile with -gdwarf-5 or an older version',
    });
  }
  if (version === 5) reader.skip(2); // address and segment selector size
  const headerLength = reader.offset(offsetSize);
  const program = reader.position + headerLength;
  if (program > end) throw reader.fail("a line table's header is longer than the table");
  const minimumLength = reader.u8();
  if (version >= 4) reader.skip(1); // operations per instruction: 1 except on VLIW machines
  const defaultIsStatement = reader.u8() !== 0;
  const lineBase = reader.s8();
  const lineRange = reader.u8();
  if (lineRange === 0) throw reader.fail('a line range of 0 makes no rows');
  const opcodeBase = reader.u8();
  const operandCounts = [0];
  for (let opcode = 1; opcode < opcodeBase; opcode++) operandCounts.push(reader.u8());
  const files = version === 5 ? readFiles5(reader, unit, offsetSize) : readFiles4(reader, unit.about);
  return {
    offset,
    version,
    files,
    minimumLength,
    defaultIsStatement,
    lineBase,
    lineRange,
    opcodeBase,
    operandCounts,
    program,
    end,
  };
}

function readFiles4(reader: Reader, about: Unit['about']): string[] {
  const directories = [about.directory];
  for (let name = reader.text(); name !== ''; name = reader.text()) directories.push(joinPath(about.directory, name));
  // Files count from 1 before DWARF 5.
  const files = [joinPath(about.directory, about.name)];
  for (let name = reader.text(); name !== ''; name = reader.text()) {
    files.push(joinPath(directories[reader.uleb()] ?? '', name));
    reader.skipLeb();
    reader.skipLeb();
  }
  return files;
}

function readFiles5(reader: Reader, unit: Unit, offsetSize: 4 | 8): string[] {
  const compilation = unit.about.directory;
  // The first is the compilation's own, which may be relative too.
  const directories = readEntries5(reader, unit, offsetSize).map(({ path }, index) =>
    joinPath(index === 0 ? '' : compilation, path),
  );
  return readEntries5(reader, unit, offsetSize).map(({ path, directory }) =>
    joinPath(directories[directory] ?? compilation, path),
  );
}

/** A table whose columns are described before it: only path (1) and directory index (2) are of use here. */
function readEntries5(reader: Reader, unit: Unit, offsetSize: 4 | 8): { path: string; directory: number }[] {
  const columns: { content: number; ofForm: number }[] = [];
  const columnCount = reader.u8();
  for (let index = 0; index < columnCount; index++) columns.push({ content: reader.uleb(), ofForm: reader.uleb() });
  const count = reader.uleb();
  const entries: { path: string; directory: number }[] = [];
  for (let index = 0; index < count; index++) {
    const before = reader.position;
    let path = '';
    let directory = 0;
    for (const { content, ofForm } of columns) {
      if (content === 1) path = readText(reader, ofForm, unit) ?? '';
      else if (content === 2) directory = readIndex(reader, ofForm);
      else skipForm(reader, ofForm, offsetSize);
    }
    // Entries without bytes could be claimed without end.
    if (reader.position === before) throw reader.fail('a file table has entries without content');
    entries.push({ path, directory });
  }
  return entries;
}

function readIndex(reader: Reader, ofForm: number): number {
  if (ofForm === form.udata) return reader.uleb();
  if (ofForm === form.data1) return reader.u8();
  if (ofForm === form.data2) return reader.u16();
  throw reader.fail(`a directory index has form 0x${ofForm.toString(16)}`);
}

/** The columns while they grow. A program makes at most one row per byte, so their size is bounded by the file's. */
class RowWriter {
  count = 0;
  private addresses: Float64Array;
  private files: Uint32Array;
  private lines: Uint32Array;
  private flags: Uint8Array;

  constructor(capacity: number) {
    this.addresses = new Float64Array(capacity);
    this.files = new Uint32Array(capacity);
    this.lines = new Uint32Array(capacity);
    this.flags = new Uint8Array(capacity);
  }

  add(address: number, file: number, line: number, flags: number): void {
    if (this.count === this.addresses.length) this.grow();
    this.addresses[this.count] = address;
    this.files[this.count] = file;
    this.lines[this.count] = line;
    this.flags[this.count] = flags;
    this.count++;
  }

  private grow(): void {
    const grown = <T extends Float64Array | Uint32Array | Uint8Array>(larger: T, smaller: T): T => {
      larger.set(smaller);
      return larger;
    };
    const capacity = this.count * 2;
    this.addresses = grown(new Float64Array(capacity), this.addresses);
    this.files = grown(new Uint32Array(capacity), this.files);
    this.lines = grown(new Uint32Array(capacity), this.lines);
    this.flags = grown(new Uint8Array(capacity), this.flags);
  }

  finish(): LineRows {
    const { count, addresses, files, lines, flags } = this;
    return { count, addresses, files, lines, flags };
  }
}

/** Runs a program to its end (DWARF 5, section 6.2.5). */
export function runLineProgram(unit: Unit, header: LineHeader): LineRows {
  const reader = unit.sections.reader('.debug_line', header.program);
  const { end, minimumLength, lineBase, lineRange, opcodeBase } = header;
  const rows = new RowWriter(Math.max(64, (end - header.program) >> 2));
  const initial = header.defaultIsStatement ? rowFlag.statement : 0;
  // "statement" lasts until it is changed; the other flags hold for one row.
  let statement: number = initial;
  let once = 0;
  let address = 0;
  let file = 1;
  let line = 1;
  while (reader.position < end) {
    const opcode = reader.u8();
    if (opcode >= opcodeBase) {
      const adjusted = opcode - opcodeBase;
      address += Math.trunc(adjusted / lineRange) * minimumLength;
      line += lineBase + (adjusted % lineRange);
      rows.add(address, file, line, statement | once);
      once = 0;
      continue;
    }
    switch (opcode) {
      case 0: {
        const length = reader.uleb();
        const next = reader.position + length;
        const extended = length === 0 ? 0 : reader.u8();
        if (extended === 1) {
          rows.add(address, file, line, statement | once | rowFlag.endSequence);
          address = 0;
          file = 1;
          line = 1;
          statement = initial;
          once = 0;
        } else if (extended === 2) address = reader.u64Number();
        else if (extended === 4 && reader.uleb() !== 0) once |= rowFlag.discriminated;
        reader.seek(next);
        break;
      }
      case 1: // copy
        rows.add(address, file, line, statement | once);
        once = 0;
        break;
      case 2: // advance_pc
        address += reader.uleb() * minimumLength;
        break;
      case 3: // advance_line
        line += reader.sleb();
        break;
      case 4: // set_file
        file = reader.uleb();
        break;
      case 5: // set_column
        reader.skipLeb();
        break;
      case 6: // negate_stmt
        statement ^= rowFlag.statement;
        break;
      case 7: // set_basic_block
        break;
      case 8: // const_add_pc
        address += Math.trunc((255 - opcodeBase) / lineRange) * minimumLength;
        break;
      case 9: // fixed_advance_pc
        address += reader.u16();
        break;
      case 10: // set_prologue_end
        once |= rowFlag.prologueEnd;
        break;
      case 11: // set_epilogue_begin
        break;
      default:
        // Also set_isa (12): an opcode that we need not know says how many operands it has.
        for (let operand = header.operandCounts[opcode] ?? 0; operand > 0; operand--) reader.skipLeb();
    }
  }
  return rows.finish();
}
