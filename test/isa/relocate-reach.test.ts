// Moving RIP-relative operands so far away that 32 bits do not reach: through a register that is free, or a borrowed one.

import { beforeAll, describe, expect, it } from 'vitest';
import { loadDecoder } from '../../src/isa/decode.js';
import { r8, rax, rbx, rcx, registerSet } from '../../src/isa/registers.js';
import { far, move, refused } from './moved.js';

beforeAll(loadDecoder);

describe('RIP-relative operands out of reach', () => {
  it('load goes through its own destination', () => {
    expect(move('488b0500100000', far).text).toEqual(['movabs rax, 0x7f0000002007', 'mov rax, qword ptr [rax]']);
  });

  it('load into r8 sets REX.B', () => {
    expect(move('4c8b0500100000', far).text).toEqual(['movabs r8, 0x7f0000002007', 'mov r8, qword ptr [r8]']);
  });

  it('lea becomes the address', () => {
    expect(move('488d0d00100000', far).text).toEqual(['movabs rcx, 0x7f0000002007', 'lea rcx, [rcx]']);
  });

  it('load into r12 borrows, because [r12] has another shape', () => {
    const copy = move('4c8b2500100000', far);
    expect(copy.text).toEqual([
      'lea rsp, [rsp - 0x80]',
      'push rax',
      'movabs rax, 0x7f0000002007',
      'mov r12, qword ptr [rax]',
      'pop rax',
      'lea rsp, [rsp + 0x80]',
    ]);
    expect(copy.result.usesStack).toBe(true);
  });

  it('store takes a dead register that it does not use', () => {
    const copy = move('48890500100000', far, { dead: registerSet(rax, rbx) });
    expect(copy.text).toEqual(['movabs rbx, 0x7f0000002007', 'mov qword ptr [rbx], rax']);
    expect(copy.result.usesStack).toBe(false);
  });

  it('store without a dead register borrows one past the red zone', () => {
    expect(move('48890500100000', far).text).toEqual([
      'lea rsp, [rsp - 0x80]',
      'push rcx',
      'movabs rcx, 0x7f0000002007',
      'mov qword ptr [rcx], rax',
      'pop rcx',
      'lea rsp, [rsp + 0x80]',
    ]);
  });

  it('store after a write to the dead register does not take it: it is dead no longer', () => {
    // mov eax, 5; mov [rip + 0x1000], ecx
    expect(move('b805000000 890d00100000', far, { dead: registerSet(rax, rbx) }).text.slice(1)).toEqual([
      'movabs rbx, 0x7f000000200b',
      'mov dword ptr [rbx], ecx',
    ]);
  });

  it('store behind a jump takes no register: what is dead before the jump says nothing about it', () => {
    const copy = move('eb06 890d00100000', far, { dead: registerSet(rax) });
    expect(copy.text.at(-1)).toBe('lea rsp, [rsp + 0x80]');
  });

  it('compare with an immediate keeps the immediate', () => {
    expect(move('833d0010000005', far, { dead: registerSet(rbx) }).text).toEqual([
      'movabs rbx, 0x7f0000002007',
      'cmp dword ptr [rbx], 5',
    ]);
  });

  it('VEX and EVEX keep their prefix', () => {
    expect(move('c5fc100500100000', far, { dead: registerSet(rcx) }).text[1]).toBe('vmovups ymm0, ymmword ptr [rcx]');
    expect(move('c4e27d180500100000', far, { dead: registerSet(r8) }).text[1]).toBe(
      'vbroadcastss ymm0, dword ptr [r8]',
    );
    expect(move('62f17c48100500100000', far, { dead: registerSet(rcx) }).text[1]).toBe(
      'vmovups zmm0, zmmword ptr [rcx]',
    );
    expect(move('62f17c48100500100000', far, { dead: registerSet(r8) }).text[1]).toBe('vmovups zmm0, zmmword ptr [r8]');
  });

  it('a stray REX.B, ignored with RIP, does not come to life', () => {
    expect(move('498b0500100000', far).text).toEqual(['movabs rax, 0x7f0000002007', 'mov rax, qword ptr [rax]']);
  });

  it('jump and push through memory need a dead register', () => {
    expect(refused('ff2500100000', far).reason).toBe('out-of-reach');
    expect(refused('ff3500100000', far).reason).toBe('out-of-reach');
    expect(move('ff2500100000', far, { dead: registerSet(rcx) }).text[1]).toBe('jmp qword ptr [rcx]');
  });

  it('narrow loads and multiplications go through their own destination', () => {
    expect(move('0fb60500100000', far).text[1]).toBe('movzx eax, byte ptr [rax]');
    expect(move('48630500100000', far).text[1]).toBe('movsxd rax, dword ptr [rax]');
    expect(move('6b050010000007', far).text[1]).toBe('imul eax, dword ptr [rax], 7');
    expect(move('8d0500100000', far).text[1]).toBe('lea eax, [rax]');
  });

  it('mul goes through rdx, which it writes and does not read; div borrows another', () => {
    expect(move('48f72500100000', far).text).toEqual(['movabs rdx, 0x7f0000002007', 'mul qword ptr [rdx]']);
    expect(move('48f73500100000', far).text).toContain('div qword ptr [rcx]');
  });

  it('load in the thread segment keeps the segment', () => {
    expect(move('64488b0500100000', far).text[1]).toBe('mov rax, qword ptr fs:[rax]');
  });

  const borrowing = [
    ['cmov may leave its destination', '480f440500100000', 'rcx', 'cmove rax, qword ptr [rcx]'],
    ['cmpxchg uses rax unseen', 'f0480fb10d00100000', 'rdx', 'lock cmpxchg qword ptr [rdx], rcx'],
    ['cmpxchg16b uses four registers unseen', 'f0480fc70d00100000', 'rsi', 'lock cmpxchg16b xmmword ptr [rsi]'],
    ['xchg', '48870500100000', 'rcx', 'xchg qword ptr [rcx], rax'],
    ['xadd', 'f0480fc10500100000', 'rcx', 'lock xadd qword ptr [rcx], rax'],
    ['8 bits keep the rest of the register', '0a0500100000', 'rcx', 'or al, byte ptr [rcx]'],
    ['load into ah', '8a2500100000', 'rcx', 'mov ah, byte ptr [rcx]'],
    ['load into r13, whose [r13] has another shape', '4c8b2d00100000', 'rax', 'mov r13, qword ptr [rax]'],
    ['load into rbp, whose [rbp] has another shape', '488b2d00100000', 'rax', 'mov rbp, qword ptr [rax]'],
    ['store of an immediate', 'c7050010000078563412', 'rax', 'mov dword ptr [rax], 0x12345678'],
    ['bit test with an immediate', '0fba250010000005', 'rax', 'bt dword ptr [rax], 5'],
    ['shift by cl', 'd32500100000', 'rax', 'shl dword ptr [rax], cl'],
    ['x87 load', 'dd0500100000', 'rax', 'fld qword ptr [rax]'],
    ['control word of x87', 'd93d00100000', 'rax', 'fnstcw word ptr [rax]'],
    ['control word of SSE', '0fae1500100000', 'rax', 'ldmxcsr dword ptr [rax]'],
    ['adcx, which keeps the other flags', '66480f38f60500100000', 'rcx', 'adcx rax, qword ptr [rcx]'],
    ['crc32', 'f2480f38f10500100000', 'rcx', 'crc32 rax, qword ptr [rcx]'],
  ] as const;
  for (const [name, bytes, register, text] of borrowing) {
    it(`borrows ${register}: ${name}`, () => {
      const copy = move(bytes, far);
      expect(copy.text.map((line) => line.replace(/0x7f.*/, 'there'))).toEqual([
        'lea rsp, [rsp - 0x80]',
        `push ${register}`,
        `movabs ${register}, there`,
        text,
        `pop ${register}`,
        'lea rsp, [rsp + 0x80]',
      ]);
      expect(copy.result.usesStack).toBe(true);
    });
  }

  it('ah cannot be had together with r8: REX would turn it into spl', () => {
    expect(move('882500100000', far, { dead: registerSet(r8) }).text).toContain('mov byte ptr [rcx], ah');
  });

  it('sil can: it has a REX prefix already', () => {
    expect(move('40883500100000', far, { dead: registerSet(r8) }).text[1]).toBe('mov byte ptr [r8], sil');
  });

  it('what uses the stack pointer cannot borrow, and is refused without a dead register', () => {
    for (const [bytes, text] of [
      ['482b2500100000', 'sub rsp, qword ptr [rcx]'],
      ['8f0500100000', 'pop qword ptr [rcx]'],
      ['488b2500100000', 'mov rsp, qword ptr [rcx]'],
    ] as const) {
      expect(refused(bytes, far).reason).toBe('out-of-reach');
      expect(move(bytes, far, { dead: registerSet(rcx) }).text[1]).toBe(text);
    }
  });
});
