// Access facts: one row per instruction that is easy to get wrong. Columns: reads; writes; changes besides; flags likewise.

import { beforeAll, describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { accessOf } from '../../src/isa/access.js';
import { decode, decodeOne, loadDecoder } from '../../src/isa/decode.js';
import { allRegisters, formatFlags, formatRegisters } from '../../src/isa/registers.js';
import { hex, libcPath, readSection } from './objdump.js';

beforeAll(loadDecoder);

function access(bytes: string) {
  const instruction = decodeOne(hex(bytes), address(0x401000));
  if (instruction === undefined) throw new Error('nothing decoded');
  return accessOf(instruction);
}

const all = 'rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15';

describe('registers', () => {
  const rows = [
    ['mov eax, ebx: 32 bits replace the whole register', '89d8', 'rbx', 'rax', ''],
    ['mov al, 1: 8 bits keep the rest', 'b001', 'rax', '', 'rax'],
    ['mov ah, al: the high byte is part of rax', '88c4', 'rax', '', 'rax'],
    ['mov ax, 1: 16 bits keep the rest', '66b80100', 'rax', '', 'rax'],
    ['mov sil, 1: needs REX', '40b601', 'rsi', '', 'rsi'],
    ['mov r9b, 1', '41b101', 'r9', '', 'r9'],
    ['xor eax, eax: does not depend on rax', '31c0', '', 'rax', ''],
    ['sete al', '0f94c0', 'rax', '', 'rax'],
    ['movzx eax, bl', '0fb6c3', 'rbx', 'rax', ''],
    ['cmove rax, rbx: may leave rax', '480f44c3', 'rbx', '', 'rax'],
    ['bsf rax, rbx: leaves rax when rbx is zero', '480fbcc3', 'rbx', '', 'rax'],
    ['push rax', '50', 'rax rsp', 'rsp', ''],
    ['pop r12', '415c', 'rsp', 'rsp r12', ''],
    ['leave', 'c9', 'rbp', 'rsp rbp', ''],
    ['lea rax, [rax + rcx*2]', '488d0448', 'rax rcx', 'rax', ''],
    ['mul ebx', 'f7e3', 'rax rbx', 'rax rdx', ''],
    ['div ebx', 'f7f3', 'rax rdx rbx', 'rax rdx', ''],
    ['cpuid', '0fa2', 'rax rcx', 'rax rcx rdx rbx', ''],
    ['rdtscp', '0f01f9', '', 'rax rcx rdx', ''],
    ['cmpxchg [rbx], ecx: rax when it fails', '0fb10b', 'rax rcx rbx', '', 'rax'],
    ['cmpxchg16b [rbx]', '480fc70b', 'rax rcx rdx rbx', '', 'rax rdx'],
    ['xchg rax, rbx', '4887d8', 'rax rbx', 'rax rbx', ''],
    ['rep movsb: a count of zero leaves all three', 'f3a4', 'rcx rsi rdi', '', 'rcx rsi rdi'],
    ['stosb', 'aa', 'rax rdi', 'rdi', ''],
    ['loop', 'e2fe', 'rcx', 'rcx', ''],
    ['syscall: the kernel may read and replace anything', '0f05', all, '', all],
    ['an undecodable byte: anything', '06', all, '', all],
  ] as const;
  for (const [name, bytes, reads, writes, besides] of rows) {
    it(`of ${name}`, () => {
      const found = access(bytes);
      expect([found.reads, found.writes, found.changes & ~found.writes].map(formatRegisters)).toEqual([
        reads,
        writes,
        besides,
      ]);
    });
  }
});

describe('flags', () => {
  const six = 'CF PF AF ZF SF OF';
  const rows = [
    ['add', '01d8', '', six, ''],
    ['test: AF counts as written', '85c0', '', six, ''],
    ['inc: keeps CF', 'ffc0', '', 'PF AF ZF SF OF', ''],
    ['mov: none', '89d8', '', '', ''],
    ['not: none', 'f7d0', '', '', ''],
    ['adc: reads CF', '11d8', 'CF', six, ''],
    ['shl eax, 5: OF and AF are undefined, so perhaps as before', 'c1e005', '', 'CF PF ZF SF', 'AF OF'],
    ['shl eax, cl: by zero it leaves all', 'd3e0', '', '', six],
    ['shl eax, 0x20: is a shift by zero', 'c1e020', '', '', ''],
    ['shld eax, ebx, cl', '0fa5d8', '', '', six],
    ['imul: only CF and OF are defined', '0fafc3', '', 'CF OF', 'PF AF ZF SF'],
    ['div: none is defined', 'f7f3', '', '', six],
    ['bt: keeps ZF', '0fa3d8', '', 'CF', 'PF AF SF OF'],
    ['repe cmpsb: a count of zero leaves all', 'f3a6', 'DF', '', six],
    ['cmpsb', 'a6', 'DF', six, ''],
    ['ja', '77fe', 'CF ZF', '', ''],
    ['cld', 'fc', '', 'DF', ''],
    ['pushfq', '9c', 'CF PF AF ZF SF DF OF', '', ''],
    ['popfq', '9d', '', 'CF PF AF ZF SF DF OF', ''],
    ['lahf', '9f', 'CF PF AF ZF SF', '', ''],
    ['sahf', '9e', '', 'CF PF AF ZF SF', ''],
    ['seto al', '0f90c0', 'OF', '', ''],
  ] as const;
  for (const [name, bytes, reads, writes, besides] of rows) {
    it(`of ${name}`, () => {
      const found = access(bytes);
      const flags = [found.flagsRead, found.flagsWritten, found.flagsChanged & ~found.flagsWritten];
      expect(flags.map(formatFlags)).toEqual([reads, writes, besides]);
    });
  }
});

describe('memory', () => {
  it('of a vector store is a store, which Capstone calls a load', () => {
    expect(access('0f1100').memory).toMatchObject([{ base: 0, size: 16, read: false, written: true }]);
  });

  it('has base, index, scale and a signed displacement', () => {
    expect(access('428b44a8f0').memory).toEqual([
      {
        base: 0,
        index: 13,
        vectorIndex: false,
        scale: 4,
        displacement: -16n,
        segment: undefined,
        size: 4,
        read: true,
        written: false,
        conditional: false,
      },
    ]);
  });

  it('of a RIP-relative operand has the whole address', () => {
    expect(access('488b0500010000').memory).toMatchObject([{ base: undefined, displacement: 0x401107n, size: 8 }]);
  });

  it('of a thread-local load names the segment', () => {
    expect(access('64488b042528000000').memory).toMatchObject([{ segment: 'fs', displacement: 0x28n }]);
  });

  it('of push and of a call through memory includes the stack', () => {
    expect(access('50').memory).toMatchObject([{ base: 4, displacement: -8n, size: 8, written: true }]);
    expect(access('ff542408').memory).toMatchObject([
      { base: 4, displacement: 8n, read: true },
      { base: 4, displacement: -8n, written: true },
    ]);
  });

  it('of cmpxchg is written under a condition', () => {
    expect(access('f0480fb10b').memory).toMatchObject([{ read: true, written: true, conditional: true, size: 8 }]);
  });

  it('of lea and of a long nop is none', () => {
    expect(access('488d0448').memory).toEqual([]);
    expect(access('0f1f440000').memory).toEqual([]);
  });

  it('of rep and of a bit number in a register has no fixed size', () => {
    expect(access('f3aa').memory).toMatchObject([{ base: 7, size: 0, conditional: true }]);
    expect(access('480fab18').memory).toMatchObject([{ base: 0, size: 0, written: true }]);
    expect(access('480fba2805').memory).toMatchObject([{ base: 0, size: 8, written: true }]);
  });

  it('of a gather has a vector index', () => {
    expect(access('c4e26d90048b').memory).toMatchObject([{ base: 3, vectorIndex: true, index: undefined }]);
  });
});

describe('on real code', () => {
  it('what is surely written is also in what may change, for 20,000 instructions and without losing memory', () => {
    const text = readSection(libcPath, '.text');
    const code = decode(text.bytes.subarray(0, 100_000), text.address);
    expect(code.length).toBeGreaterThan(20_000);
    const before = process.memoryUsage().arrayBuffers;
    for (const instruction of code) {
      const found = accessOf(instruction);
      expect(found.writes & ~found.changes).toBe(0);
      expect(found.flagsWritten & ~(found.flagsChanged | 0x10)).toBe(0);
      expect((found.reads | found.changes) & ~allRegisters).toBe(0);
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 << 20);
  });
});
