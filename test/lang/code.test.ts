// The code that expressions become, instruction by instruction: it runs on every hit, so every one counts.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { openBinary } from '../../src/binary/binary.js';
import { decode, loadDecoder } from '../../src/isa/decode.js';
import { Emitter } from '../../src/isa/emit.js';
import { formatInstruction } from '../../src/isa/instruction.js';
import { noRegisters, type Register, r8, rax, rbp, rcx, rdi, rdx, registerSet, rsi } from '../../src/isa/registers.js';
import { check } from '../../src/lang/check.js';
import {
  compileCondition,
  compileValue,
  fixedRegisters,
  type Machine,
  mayFault,
  registersRead,
  scratchNeeded,
  scratchWanted,
} from '../../src/lang/compile.js';
import { parse } from '../../src/lang/parse.js';
import { scopeAt } from '../../src/lang/scope.js';
import { folder, sources } from './oracle.js';

beforeAll(loadDecoder);

const source = join(sources, 'examples.c');
const program = join(folder, 'examples');
execFileSync('gcc', ['-g', '-w', '-O0', '-fno-pie', '-no-pie', source, '-o', program]);
const binary = openBinary(program);
const line =
  readFileSync(source, 'utf8')
    .split('\n')
    .findIndex((text) => text.includes('here')) + 1;
const at = binary.sitesOfLine('examples.c', line).sites[0]?.address ?? address(0);
const scope = scopeAt(binary, at);
const typedOf = (text: string) => check(parse(text, scope), scope);
const base = address(0x1000_0000n);

/** `[rbp - 0x14]` becomes `[i]`, so that the listing does not depend on where the compiler puts things. */
function named(text: string): string {
  let result = text;
  for (const { name, location } of [...binary.variablesAt(at), ...binary.globalsAt(at)]) {
    if (location.kind === 'frame') {
      const sign = location.offset < 0 ? '-' : '+';
      result = result.replaceAll(`[${location.base} ${sign} 0x${Math.abs(location.offset).toString(16)}]`, `[${name}]`);
    } else if (location.kind === 'address') {
      result = result.replaceAll(`[0x${location.address.toString(16)}]`, `[${name}]`);
    }
  }
  return result.replaceAll(' ptr', '');
}

interface Options {
  readonly scratch?: readonly Register[];
  /** Registers whose target's value lies on the stack, the first at the top. */
  readonly saved?: readonly Register[];
}

const someRegisters = [rax, rcx, rdx, rsi] as const;

/** Compiles, decodes, and gives the instructions with names for variables and labels, and which of them may fault. */
function compiled(text: string, form: 'condition' | 'value', options: Options) {
  const code = new Emitter(base);
  const [no, fault] = [code.label('false'), code.label('fault')];
  const { scratch = someRegisters, saved = [] } = options;
  const home = (register: Register) => {
    const index = saved.indexOf(register);
    return index < 0 ? register : { stackOffset: 8 * index };
  };
  const machine: Machine = { scratch, home, stackDepth: 8 * saved.length, loadBias: 0n, onFault: fault };
  const typed = typedOf(text);
  const faults =
    form === 'condition' ? compileCondition(code, typed, machine, no) : compileValue(code, typed, machine, rax);
  const { length } = code;
  const places = new Map([[`0x${code.here.toString(16)}`, 'end']]);
  for (const label of [no, fault]) {
    code.nop();
    code.bind(label);
    places.set(`0x${code.addressOf(label).toString(16)}`, label.name);
  }
  const instructions = decode(code.finish().subarray(0, length), base);
  const listing = instructions.map((instruction) =>
    named(formatInstruction(instruction)).replace(/0x1[0-9a-f]{7}$/, (target) => places.get(target) ?? target),
  );
  const faulting = faults.map((point) => {
    const index = instructions.findIndex((instruction) => instruction.address === point.at);
    const end = instructions[index + 1]?.address ?? base + BigInt(length);
    return { code: listing[index], isWhole: point.end === end, text: text.slice(point.span.start, point.span.end) };
  });
  return { listing, faulting };
}

const condition = (text: string, options: Options = {}) => compiled(text, 'condition', options).listing;
const value = (text: string, options: Options = {}) => compiled(text, 'value', options).listing;

describe('conditions', () => {
  it('load a local once for a range', () => {
    expect(condition('i<0 || i>1000000')).toEqual([
      'mov eax, dword [i]',
      'test eax, eax',
      'js end',
      'cmp eax, 0xf4240',
      'jle false',
    ]);
  });

  it('load nothing twice along a chain, and take the register over at the last use', () => {
    expect(condition('i >= 0 && i < n && a[i] != 0')).toEqual([
      'mov eax, dword [i]',
      'test eax, eax',
      'js false',
      'cmp eax, dword [n]',
      'jge false',
      'movsxd rax, eax',
      `cmp dword [${arrayAt('a')}], 0`,
      'je false',
    ]);
  });

  it('compare from memory when there is no register to spare', () => {
    expect(condition('i<0 || i>1000000', { scratch: [] })).toEqual([
      'cmp dword [i], 0',
      'jl end',
      'cmp dword [i], 0xf4240',
      'jle false',
    ]);
  });

  it('load again where the first load may not have happened', () => {
    expect(condition('(n && i > 5) || i < 3', { scratch: [rax] })).toEqual([
      'cmp dword [n], 0',
      expect.stringMatching(/^je /),
      'mov eax, dword [i]',
      'cmp eax, 5',
      'jg end',
      'cmp dword [i], 3',
      'jge false',
    ]);
  });

  it('compare two variables with one load', () => {
    expect(condition('n > cap')).toEqual(['mov eax, dword [n]', 'cmp eax, dword [cap]', 'jle false']);
  });

  it('compare with constants in place', () => {
    expect(condition('i == 5')).toEqual(['cmp dword [i], 5', 'jne false']);
    expect(condition('c == 5')).toEqual(['cmp byte [c], 5', 'jne false']);
    expect(condition('5 < i')).toEqual(['cmp dword [i], 5', 'jle false']);
    expect(condition('limit == 7')).toEqual(['cmp dword [limit], 7', 'jne false']);
    expect(condition('state == running')).toEqual(['cmp dword [state], 1', 'jne false']);
    expect(condition('size > 0x100000000')).toEqual(['movabs rax, 0x100000000', 'cmp qword [size], rax', 'jbe false']);
  });

  it('follow pointers with one load each', () => {
    expect(condition('p->next->next->id == 7')).toEqual([
      'mov rax, qword [p]',
      'mov rax, qword [rax + 8]',
      'mov rax, qword [rax + 8]',
      'cmp dword [rax], 7',
      'jne false',
    ]);
    expect(condition("text[i] == 'a'")).toEqual([
      'mov rax, qword [text]',
      'movsxd rcx, dword [i]',
      'cmp byte [rax + rcx], 0x61',
      'jne false',
    ]);
  });

  it('test bits', () => {
    expect(condition('!(i & 1)')).toEqual(['test dword [i], 1', 'jne false']);
    expect(condition('p && p->flags & 4')).toEqual([
      'mov rax, qword [p]',
      'test rax, rax',
      'je false',
      'test dword [rax + 0x10], 4',
      'je false',
    ]);
    expect(condition('p->ready')).toEqual(['mov rax, qword [p]', 'test byte [rax + 0x18], 1', 'je false']);
    expect(condition('i % 4 == 0')).toEqual(['test dword [i], 3', 'jne false']);
  });

  it('tell multiples without dividing', () => {
    expect(condition('i % 1000 == 0')).toEqual([
      'imul eax, dword [i], 0x26e978d5',
      'add eax, 0x10624d8',
      'ror eax, 3',
      'cmp eax, 0x418936',
      'ja false',
    ]);
  });

  it('use registers where they are', () => {
    expect(condition('$edi > 5 && $sil == 1 && $rdi != $r8')).toEqual([
      'cmp edi, 5',
      'jle false',
      'cmp sil, 1',
      'jne false',
      'cmp rdi, r8',
      'je false',
    ]);
  });

  it('are nothing, or a jump, when they are known', () => {
    expect(condition('sizeof(int) == 4 || i')).toEqual([]);
    expect(condition('1 > 2 && p->id')).toEqual(['jmp false']);
  });
});

/** The operand of an array's element whose index is in rax. */
function arrayAt(name: string): string {
  const { location } = binary.variableAt(at, name);
  if (location.kind !== 'frame') throw new Error(`${name} is not in the frame`);
  return `rbp + rax*4 - 0x${Math.abs(location.offset).toString(16)}`;
}

describe('values', () => {
  it('are extended to 64 bits as their type says', () => {
    expect(value('c')).toEqual(['movsx rax, byte [c]']);
    expect(value('(unsigned char)i')).toEqual(['movzx eax, byte [i]']);
    expect(value('i')).toEqual(['movsxd rax, dword [i]']);
    expect(value('i - n')).toEqual(['mov eax, dword [i]', 'sub eax, dword [n]', 'movsxd rax, eax']);
    expect(value('-1')).toEqual(['mov rax, 0xffffffffffffffff']);
  });

  it('use what the processor has', () => {
    expect(value('$rdi + 8')).toEqual(['lea rax, [rdi + 8]']);
    expect(value('size / 8')).toEqual(['mov rax, qword [size]', 'shr rax, 3']);
    expect(value('size * 12')).toEqual(['imul rax, qword [size], 0xc']);
    expect(value('&a[i]')).toEqual(['movsxd rax, dword [i]', `lea rax, [${arrayAt('a')}]`]);
    expect(value('$sp')).toEqual(['lea rax, [rsp]']);
    expect(value('(unsigned)i / 10')).toEqual([
      'mov eax, dword [i]',
      'mov ecx, 0xcccccccd',
      'imul rcx, rax',
      'shr rcx, 0x23',
      'mov eax, ecx',
    ]);
    expect(value('i < n')).toEqual(['mov eax, dword [i]', 'cmp eax, dword [n]', 'setl al', 'movzx eax, al']);
    expect(value('size << i')).toEqual(['mov rax, qword [size]', 'mov ecx, dword [i]', 'shl rax, cl']);
  });

  it('find the target’s registers where they were saved', () => {
    expect(value('$rdi', { saved: [rsi, rdi] })).toEqual(['mov rax, qword [rsp + 8]']);
    expect(value('$ah', { saved: [rax] })).toEqual(['movsx rax, byte [rsp + 1]']);
    expect(value('$sp', { saved: [rsi, rdi] })).toEqual(['lea rax, [rsp + 0x10]']);
    expect(condition('$edi == 3', { saved: [rdi] })).toEqual(['cmp dword [rsp], 3', 'jne false']);
    const { location } = binary.variableAt(at, 'n');
    const offset = location.kind === 'frame' ? `- 0x${(-location.offset).toString(16)}` : '';
    expect(value('n', { saved: [rbp] })).toEqual(['mov rax, qword [rsp]', `movsxd rax, dword [rax ${offset}]`]);
  });
});

describe('loads that may fault', () => {
  it('are listed with what they load', () => {
    expect(compiled('p->next->next->id == 7', 'condition', {}).faulting).toEqual([
      { code: 'mov rax, qword [rax + 8]', isWhole: true, text: 'p->next' },
      { code: 'mov rax, qword [rax + 8]', isWhole: true, text: 'p->next->next' },
      { code: 'cmp dword [rax], 7', isWhole: true, text: 'p->next->next->id' },
    ]);
    expect(
      compiled('text[i] + a[n]', 'value', {})
        .faulting.map(({ text }) => text)
        .sort(),
    ).toEqual(['a[n]', 'text[i]']);
  });

  it('are not those of plain variables and their parts', () => {
    for (const text of [
      'i < 0 || i > n',
      'limit',
      'local.next',
      'a[9]',
      'totals[3]',
      '&p->id',
      'sizeof(p->id)',
      'i / n',
    ]) {
      expect([text, mayFault(typedOf(text)), compiled(text, 'value', {}).faulting]).toEqual([text, false, []]);
    }
    for (const text of [
      'a[10]',
      'a[-1]',
      'a[i]',
      '*p',
      'p->id',
      'local.next->id',
      '*(int *)0',
      '$rdi && *(char *)$rdi',
    ]) {
      const isStruct = text === '*p';
      expect([text, mayFault(typedOf(isStruct ? 'p->tag' : text))]).toEqual([text, true]);
    }
  });
});

describe('what an expression needs', () => {
  const counts = (text: string, as: 'condition' | 'value' = 'condition') => {
    const typed = typedOf(text);
    return [scratchNeeded(typed, { as }), scratchWanted(typed, { as })];
  };

  it('is counted in scratch registers', () => {
    expect(counts('$rdi == 5 && i == 3')).toEqual([0, 0]);
    expect(counts('i == 3', 'value')).toEqual([1, 1]);
    expect(counts('i < 0 || i > 9')).toEqual([0, 1]);
    expect(counts('p->next->next->id == 7')).toEqual([1, 1]);
    expect(counts('(i + n) * (cap + c) == (i - n) * (cap - c)')).toEqual([3, 6]);
    expect(counts('a[i] + text[n]')[0]).toBe(2);
  });

  it('includes the registers that are fixed, and those the target’s values are moved out to', () => {
    expect(fixedRegisters(typedOf('i / n'))).toBe(registerSet(rax, rdx));
    expect(fixedRegisters(typedOf('i << n'))).toBe(registerSet(rcx));
    expect(fixedRegisters(typedOf('i / 4 + (size / 8 << 3)'))).toBe(noRegisters);
    expect(counts('$eax / $edi')[0]).toBe(4);
    expect(value('$eax / -7', { scratch: [rax, rdx, rcx, rsi, r8] })[0]).toBe('mov rcx, rax');
  });

  it('is refused when there is too little', () => {
    expect(() => value('i / n', { scratch: [rcx, rsi, rdi] })).toThrow('needs rax rdx to divide or shift');
    expect(() => condition('a[i] + text[n] > 3', { scratch: [rcx] })).toThrow('1 scratch registers are not enough');
  });

  it('tells which registers of the target are read', () => {
    expect(registersRead(typedOf('i + $rdi'))).toBe(registerSet(rbp, rdi));
    expect(registersRead(typedOf('limit + $sp'))).toBe(noRegisters);
  });
});
