// Every kind of place that DWARF can give a variable, and the code or the refusal that comes of it.

import { beforeAll, describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import type { Type } from '../../src/binary/types.js';
import type { Variable } from '../../src/binary/variables.js';
import { decode, loadDecoder } from '../../src/isa/decode.js';
import { Emitter } from '../../src/isa/emit.js';
import { formatInstruction } from '../../src/isa/instruction.js';
import { rax, rcx } from '../../src/isa/registers.js';
import { basicTypes } from '../../src/lang/c-types.js';
import { check } from '../../src/lang/check.js';
import { compileValue, mayFault } from '../../src/lang/compile.js';
import { parse } from '../../src/lang/parse.js';
import type { Scope } from '../../src/lang/scope.js';

beforeAll(loadDecoder);

type Location = Variable['location'];

const member = (name: string, type: Type, offset: number) => ({ name, type, offset, bits: undefined });
const pair: Type = {
  kind: 'struct',
  name: 'pair',
  size: 8,
  isComplete: true,
  members: [
    member('low', basicTypes.int, 0),
    member('high', basicTypes['unsigned int'], 4),
    member('byte', basicTypes.char, 5),
  ],
  bases: [],
};

/** A scope with one variable, `x`, at the location. */
function scopeWith(location: Location, type: Type): Scope {
  const variable = { name: 'x', kind: 'local', type, location, file: undefined, line: undefined } as const;
  const unknown = (name: string): Type => {
    throw new Error(`no type ${name}`);
  };
  return { address: address(0x401000), variable: () => variable, type: unknown, isType: () => false };
}

function typed(text: string, location: Location, type: Type = basicTypes.int) {
  const scope = scopeWith(location, type);
  return check(parse(text, scope), scope);
}

function value(text: string, location: Location, type?: Type): string[] {
  const base = address(0x7000_0000_0000n);
  const code = new Emitter(base);
  const onFault = code.label('fault');
  const machine = { scratch: [rax, rcx], home: (each: number) => each, stackDepth: 16, loadBias: 0x1000n, onFault };
  compileValue(code, typed(text, location, type), machine as Parameters<typeof compileValue>[2], rax);
  code.bind(onFault);
  return decode(code.finish(), base).map((instruction) => formatInstruction(instruction).replace(' ptr', ''));
}

describe('a variable', () => {
  it('in a register', () => {
    const location = { kind: 'register', register: 'rbx' } as const;
    expect(value('x', location)).toEqual(['movsxd rax, ebx']);
    expect(value('x', location, basicTypes.char)).toEqual(['movsx rax, bl']);
    expect(value('x', location, basicTypes['long int'])).toEqual(['mov rax, rbx']);
    expect(() => value('&x', location)).toThrow("'x' is in a register here and has no address");
  });

  it('in a part of a register', () => {
    const location = { kind: 'register', register: 'rbx' } as const;
    expect(value('x.low', location, pair)).toEqual(['movsxd rax, ebx']);
    expect(value('x.high', location, pair)).toEqual(['mov rax, rbx', 'shr rax, 0x20', 'mov eax, eax']);
    expect(value('x.byte', location, pair)).toEqual(['mov rax, rbx', 'shr rax, 0x28', 'movsx rax, al']);
    expect(value('$ah', location)).toEqual(['mov rcx, rax', 'shr rcx, 8', 'movsx rcx, cl', 'mov rax, rcx']);
  });

  it('on the stack, from any register', () => {
    expect(value('x', { kind: 'frame', base: 'rsp', offset: 8 })).toEqual(['movsxd rax, dword [rsp + 0x18]']);
    expect(value('x.high', { kind: 'frame', base: 'r12', offset: -16 }, pair)).toEqual(['mov eax, dword [r12 - 0xc]']);
    expect(value('&x', { kind: 'frame', base: 'rbp', offset: 0 })).toEqual(['mov rax, rbp']);
  });

  it('at an address, near or far', () => {
    expect(value('x', { kind: 'address', address: address(0x404000) })).toEqual(['movsxd rax, dword [0x405000]']);
    const near = { kind: 'address', address: address(0x7000_1000_0000n) } as const;
    expect(value('x', near)).toEqual([expect.stringMatching(/^movsxd rax, dword \[rip \+ 0x/)]);
    const far = { kind: 'address', address: address(0x5555_0000_0000n) } as const;
    expect(value('x', far)).toEqual(['movabs rax, 0x555500001000', 'movsxd rax, dword [rax]']);
    expect(value('&x', far)).toEqual(['movabs rax, 0x555500001000']);
    expect(mayFault(typed('x', far))).toBe(false);
  });

  it('with a known value', () => {
    expect(typed('x', { kind: 'constant', value: 0xffff_ffffn }).value).toMatchObject({ value: -1n });
    const both = { kind: 'constant', value: 0x8000_0000_0000_0005n } as const;
    expect(typed('x.low', both, pair).value).toMatchObject({ value: 5n });
    expect(typed('x.high', both, pair).value).toMatchObject({ value: 0x8000_0000n });
    expect(() => typed('&x', both, pair)).toThrow('is in no place here');
  });

  it('that is computed', () => {
    const register = { op: 'register', register: 'rbx', offset: 4 } as const;
    const sum: Location = { kind: 'expression', ops: [register], result: 'value' };
    expect(value('x', sum)).toEqual(['lea rax, [rbx + 4]', 'movsxd rax, eax']);
    const compared: Location = {
      kind: 'expression',
      ops: [{ op: 'register', register: 'rcx', offset: 0 }, { op: 'push', value: 0n }, { op: 'unequal' }],
      result: 'value',
    };
    expect(value('x', compared, basicTypes._Bool)).toEqual([
      'test rcx, rcx',
      'setne al',
      'movzx eax, al',
      'movzx eax, al',
    ]);
    const reached: Location = { kind: 'expression', ops: [register, { op: 'load', size: 8 }], result: 'address' };
    expect(value('x', reached)).toEqual(['mov rax, qword [rbx + 4]', 'movsxd rax, dword [rax]']);
    expect(mayFault(typed('x', reached))).toBe(true);
    const swapped: Location = {
      kind: 'expression',
      ops: [{ op: 'push', value: 10n }, { op: 'push', value: 3n }, { op: 'swap' }, { op: 'minus' }, { op: 'negate' }],
      result: 'value',
    };
    expect(typed('x', swapped).value).toMatchObject({ op: 'constant', value: 7n });
  });

  it('that is out of reach is refused with the reason', () => {
    const refused = (location: Location) => () => typed('x + 1', location);
    expect(refused({ kind: 'register', register: 'xmm0' })).toThrow("'x' can't be read here: it is in xmm0");
    expect(refused({ kind: 'pieces', pieces: [] })).toThrow('it is in several parts');
    const unsupported = { kind: 'unsupported', reason: 'it is only known there', availableAt: [] } as const;
    expect(refused(unsupported)).toThrow('it is only known there');
    const odd: Location = { kind: 'expression', ops: [{ op: 'push', value: 1n }, { op: 'dup' }], result: 'value' };
    expect(refused(odd)).toThrow("its DWARF expression needs 'dup'");
    expect(refused({ kind: 'optimised-out', availableAt: [] })).toThrow('is optimised out here');
  });
});
