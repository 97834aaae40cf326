// Liveness: small functions by hand, one rule each. That it holds in real programs is shown in test/torture.

import { beforeAll, describe, expect, it } from 'vitest';
import { address, offsetBy } from '../../src/address.js';
import { loadDecoder } from '../../src/isa/decode.js';
import { analyseFlow, type FlowOptions } from '../../src/isa/flow.js';
import { Liveness } from '../../src/isa/liveness.js';
import { formatFlags, formatRegisters } from '../../src/isa/registers.js';
import { hex } from './objdump.js';

beforeAll(loadDecoder);

const start = address(0x401000);
const at = (offset: number) => offsetBy(start, offset);

function dead(bytes: string, offset = 0, options: FlowOptions = {}): { registers: string; flags: string } {
  const { registers, flags } = new Liveness(analyseFlow(hex(bytes), start, options)).deadBefore(at(offset));
  return { registers: formatRegisters(registers), flags: formatFlags(flags) };
}

const six = 'CF PF AF ZF SF OF';

describe('registers', () => {
  const rows: readonly (readonly [string, string, string])[] = [
    ['written whole before the return', '48c7c001000000 c3', 'rax'],
    ['written as 32 bits, which clears the rest', 'b801000000 c3', 'rax'],
    ['not by 8 bits', 'b001 c3', ''],
    ['not by 16 bits', '66b80100 c3', ''],
    ['not when read first', '89c1 b801000000 c3', 'rcx'],
    ['not when only perhaps written: cmov', '480f44c1 c3', ''],
    ['not as part of an address that is written to', '48890a c3', ''],
    ['by xor with itself', '31c0 c3', 'rax'],
    ['not at a return', 'c3', ''],
    ['not at a call', 'e8fb0f0000 31c0 c3', ''],
    ['not at a call through a register', 'ffd1 31c0 c3', ''],
    ['not at a system call', '0f05 31c0 c3', ''],
    ['not at a trap', 'cc 31c0 c3', ''],
    ['not at an undefined instruction', '0f0b 31c0 c3', ''],
    ['not at a tail call', 'e9fb0f0000', ''],
    ['not at a tail call under a condition', '0f84fa0f0000 31c0 c3', ''],
    ['not at a jump that is not understood', 'ffe1 31c0 c3', ''],
    ['not past an instruction that is not understood', '06 31c0 c3', ''],
    ['not when control runs out of the function', '90', ''],
    ['not the stack pointer, whatever happens', '4889ec 5d c3', ''],
    ['not when a push saves it', '53 31db 5b c3', ''],
  ];
  for (const [name, bytes, expected] of rows)
    it(`are dead ${name}`, () => expect(dead(bytes).registers).toBe(expected));

  it('are dead only if so on both ways', () => {
    // test edi, edi; je L; mov eax, 1; mov ecx, 1; ret; L: mov eax, 2; ret
    expect(dead('85ff 740b b801000000 b901000000 c3 b802000000 c3').registers).toBe('rax');
  });

  it('are dead around a loop if nobody reads them', () => {
    // L: mov eax, [rdi]; add rdi, 4; dec esi; jne L; ret
    const bytes = '8b07 4883c704 ffce 75f6 c3';
    expect(dead(bytes, 0).registers).toBe('rax');
    expect(dead(bytes, 2).registers).toBe('');
  });

  it('are live around a loop that reads them in the next round', () => {
    // xor ecx, ecx; L: add ecx, eax; mov eax, [rdi]; dec esi; jne L; ret
    const bytes = '31c9 01c1 8b07 ffce 75f8 c3';
    expect(dead(bytes, 0).registers).toBe('rcx');
    expect(dead(bytes, 4).registers).toBe('rax');
    expect(dead(bytes, 6).registers).toBe('');
  });

  it('are dead through a jump table that is understood', () => {
    const table = new Uint8Array(new BigUint64Array([at(15), at(18)]).buffer);
    // 0: cmp edi, 1; 3: ja 15; 5: mov edi, edi; 7: jmp [rdi*8 + 0x402000]; 15: xor eax, eax; ret; 18: xor eax, eax; ret
    const bytes = '83ff01 770a 89ff ff24fd00204000 90 31c0c3 31c0c3';
    const read = (place: bigint, size: number) => (place === 0x402000n ? table.subarray(0, size) : undefined);
    expect(dead(bytes, 0, { read }).registers).toBe('rax');
    expect(dead(bytes, 0).registers).toBe('');
  });

  it('that unwinding restores are live where there is a landing pad', () => {
    const bytes = '31db 31c0 c3';
    expect(dead(bytes).registers).toBe('rax rbx');
    expect(dead(bytes, 0, { landingPads: [at(4)] }).registers).toBe('rax');
  });

  it('are all live where no instruction starts', () => expect(dead('b801000000 c3', 1).registers).toBe(''));
});

describe('flags', () => {
  const rows: readonly (readonly [string, string, string])[] = [
    ['before an addition', '01d8 c3', six],
    ['before a comparison', '39d8 7400 c3', six],
    ['not at a return', 'c3', ''],
    ['not at a call', 'e8fb0f0000 01d8 c3', ''],
    ['not before a branch that reads them', '7402 01d8 01d8 c3', 'PF AF SF OF CF'],
    ['not carry before inc', 'ffc0 c3', 'PF AF ZF SF OF'],
    ['not before a shift by cl, which may be by zero', 'd3e0 c3', ''],
    ['not before adc as far as it reads', '11d8 c3', 'PF AF ZF SF OF'],
    ['not the direction flag', 'fc 01d8 c3', six],
  ];
  for (const [name, bytes, expected] of rows) {
    it(`are dead ${name}`, () => {
      expect(dead(bytes).flags.split(' ').sort()).toEqual(expected.split(' ').sort());
    });
  }
});
