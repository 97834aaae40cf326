// Decoding: known encodings, the verdict of two decoders, and agreement with objdump on real code.

import iced from 'iced-x86';
import { beforeAll, describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { decode, decodeOne, loadDecoder } from '../../src/isa/decode.js';
import { type Flow, formatInstruction, type Instruction } from '../../src/isa/instruction.js';
import { hex, libcPath, objdump, readSection } from './objdump.js';

beforeAll(loadDecoder);

const at = address(0x401000);

function one(text: string): Instruction {
  const instruction = decodeOne(hex(text), at);
  if (instruction === undefined) throw new Error('nothing decoded');
  return instruction;
}

describe('decode', () => {
  it('gives address, length, bytes and text', () => {
    const [first, second] = decode(hex('4889d8 c3'), at);
    expect(first).toMatchObject({ address: at, length: 3, bytes: hex('4889d8'), flow: 'next', problem: undefined });
    expect(first && formatInstruction(first)).toBe('mov rax, rbx');
    expect(second).toMatchObject({ address: address(0x401003), mnemonic: 'ret', operands: '', flow: 'return' });
  });

  it('covers every byte, whatever the bytes are', () => {
    const bytes = Uint8Array.from({ length: 5000 }, (_, i) => (i * 7919 + (i >> 3) * 31) & 0xff);
    const found = decode(bytes, at);
    let next = 0;
    for (const instruction of found) {
      expect(instruction.address).toBe(at + BigInt(next));
      next += instruction.length;
    }
    expect(next).toBe(bytes.length);
  });

  it('takes more than one window of 1 KB without a seam', () => {
    const bytes = new Uint8Array(9 * 1000).fill(0);
    for (let i = 0; i < bytes.length; i += 9) bytes.set(hex('660f1f840000000000'), i);
    const found = decode(bytes, at);
    expect(found.length).toBe(1000);
    expect(found.every((instruction) => instruction.length === 9 && instruction.problem === undefined)).toBe(true);
  });

  it('does not see later changes of the bytes it was given', () => {
    const bytes = hex('90 90');
    const [instruction] = decode(bytes, at);
    bytes.fill(0xcc);
    expect(instruction?.bytes).toEqual(hex('90'));
    expect(instruction?.mnemonic).toBe('nop');
  });

  it('returns nothing for nothing', () => {
    expect(decode(new Uint8Array(0), at)).toEqual([]);
    expect(decodeOne(new Uint8Array(0), at)).toBeUndefined();
  });
});

describe('RIP-relative operands', () => {
  const cases: readonly (readonly [string, string, number, bigint])[] = [
    ['lea', '488d0510000000', 3, 0x401017n],
    ['an SSE load under a 66 prefix, where Capstone has the size wrong', '660f6f0d10000000', 4, 0x401018n],
    ['a VEX load', 'c5f96f0510000000', 4, 0x401018n],
    ['an EVEX load', '62f17c48100510000000', 6, 0x40101an],
    ['a displacement before an immediate', 'c705f8ffffff78563412', 2, 0x401002n],
    ['a 16-bit immediate', '66c7050000000034 12', 3, 0x401009n],
    ['a backward reference', '488b05f9efffff', 3, 0x400000n],
    ['a call through memory', 'ff1500100000', 2, 0x402006n],
  ];
  for (const [name, bytes, offset, target] of cases) {
    it(`are found in ${name}`, () => {
      expect(one(bytes)).toMatchObject({ ripOperand: { offset, target: address(target) }, problem: undefined });
    });
  }

  it('are not seen in an absolute or register operand', () => {
    for (const bytes of ['488b042500100000', '4889c5', '488b4500', '488b442408']) {
      expect(one(bytes).ripOperand).toBeUndefined();
    }
  });

  it('are refused when relative to EIP', () => {
    expect(one('67488b0578563412').problem).toContain('EIP');
  });
});

describe('control flow', () => {
  const cases: readonly (readonly [string, Flow, bigint | undefined])[] = [
    ['eb05', 'jump', 0x401007n],
    ['e9fbefffff', 'jump', 0x400000n],
    ['f2e900000000', 'jump', 0x401006n],
    ['74fe', 'conditional-jump', 0x401000n],
    ['3e7400', 'conditional-jump', 0x401003n],
    ['0f8510000000', 'conditional-jump', 0x401016n],
    ['e2fe', 'loop', 0x401000n],
    ['e1fe', 'loop', 0x401000n],
    ['e0fe', 'loop', 0x401000n],
    ['e310', 'loop', 0x401012n],
    ['67e310', 'loop', 0x401013n],
    ['e800000000', 'call', 0x401005n],
    ['666648e800000000', 'call', 0x401008n],
    ['c7f810000000', 'xbegin', 0x401016n],
    ['c3', 'return', undefined],
    ['f3c3', 'return', undefined],
    ['c20800', 'return', undefined],
    ['48cf', 'return', undefined],
    ['ffe0', 'indirect-jump', undefined],
    ['3effe0', 'indirect-jump', undefined],
    ['ff2510000000', 'indirect-jump', undefined],
    ['41ffd3', 'indirect-call', undefined],
    ['ff542408', 'indirect-call', undefined],
    ['48ff28', 'far', undefined],
    ['0f05', 'syscall', undefined],
    ['cd80', 'syscall', undefined],
    ['cc', 'trap', undefined],
    ['cd03', 'trap', undefined],
    ['0f0b', 'trap', undefined],
    ['f4', 'trap', undefined],
    ['f30f1efa', 'next', undefined],
    ['ffc0', 'next', undefined],
    ['ff30', 'next', undefined],
    ['c7c078563412', 'next', undefined],
    ['c5f877', 'next', undefined],
  ];
  for (const [bytes, flow, target] of cases) {
    it(`of ${bytes} is ${flow}`, () => {
      expect(one(bytes)).toMatchObject({ flow, target, problem: undefined });
    });
  }

  it('agrees with iced on every opcode of the one- and two-byte maps', () => {
    const { FlowControl } = iced;
    const kinds: Record<number, readonly Flow[]> = {
      [FlowControl.Next]: ['next'],
      [FlowControl.UnconditionalBranch]: ['jump'],
      [FlowControl.IndirectBranch]: ['indirect-jump', 'far'],
      [FlowControl.ConditionalBranch]: ['conditional-jump', 'loop'],
      [FlowControl.Return]: ['return', 'trap'],
      [FlowControl.Call]: ['call', 'syscall'],
      [FlowControl.IndirectCall]: ['indirect-call', 'far'],
      [FlowControl.Interrupt]: ['trap', 'syscall'],
      [FlowControl.XbeginXabortXend]: ['xbegin', 'next'],
      [FlowControl.Exception]: ['trap'],
    };
    let seen = 0;
    for (const prefix of ['', '48', 'f3', '0f', '480f']) {
      for (let opcode = 0; opcode < 256; opcode++) {
        for (const modrm of [0x00, 0x10, 0x18, 0x20, 0x28, 0x48, 0xc0, 0xd0, 0xe0, 0xf8]) {
          const bytes = hex(`${prefix}${Buffer.from([opcode, modrm]).toString('hex')}000000000000000000`);
          const instruction = decodeOne(bytes, at);
          if (instruction === undefined || instruction.problem !== undefined) continue;
          const decoder = new iced.Decoder(64, bytes, 0);
          const second = decoder.decode();
          // hlt is privileged: for iced it goes on, for a process it ends in SIGSEGV.
          const expected = second.mnemonic === iced.Mnemonic.Hlt ? ['trap'] : kinds[second.flowControl];
          expect(expected, formatInstruction(instruction)).toContain(instruction.flow);
          second.free();
          decoder.free();
          seen++;
        }
      }
    }
    expect(seen).toBeGreaterThan(5000);
  });
});

describe('instructions that are not relied on', () => {
  it('say that Capstone cannot decode them, and have the length iced gives', () => {
    expect(one('c4e2494eed')).toMatchObject({ problem: 'it is not an instruction' });
    expect(one('c4e27b49c0')).toMatchObject({ length: 5, problem: 'Capstone cannot decode it', flow: 'next' });
  });

  it('say that the decoders disagree on the length', () => {
    expect(one('0fb9c0')).toMatchObject({ length: 3, problem: expect.stringContaining('iced says 3') });
  });

  it('say that the bytes end too early', () => {
    expect(one('e80000')).toMatchObject({ length: 1, problem: 'it goes on beyond the bytes given' });
  });

  it('say that Intel and AMD differ on a near branch with an operand-size prefix', () => {
    for (const bytes of ['66e900000000', '66c3', '66ffe0']) expect(one(bytes).problem).toContain('AMD');
  });

  it('do not put the sweep out of step', () => {
    const found = decode(hex('90 c4e27b49c0 4889d8'), at);
    expect(found.map((instruction) => instruction.length)).toEqual([1, 5, 3]);
    expect(found.map((instruction) => instruction.problem !== undefined)).toEqual([false, true, false]);
  });
});

describe('against objdump', () => {
  const binaries = [
    { path: libcPath, from: 0n, to: 0x30000n },
    { path: libcPath, from: 0x110000n, to: 0x40000n },
    { path: '/usr/bin/bash', from: 0n, to: 0x20000n },
    { path: process.execPath, from: 0x400000n, to: 0x20000n },
  ];
  for (const { path, from, to } of binaries) {
    it(`has the same boundaries and targets in ${path.split('/').pop()} from ${from.toString(16)}`, () => {
      const section = readSection(path, '.text');
      const start = Number(from);
      const code = section.bytes.subarray(start, start + Number(to));
      const base = address(section.address + from);
      const found = new Map(decode(code, base).map((instruction) => [instruction.address, instruction]));
      // objdump may start inside an instruction when the range does; both agree again after a few.
      const lines = objdump(path, base, base + BigInt(code.length)).slice(8, -8);
      let compared = 0;
      for (const line of lines) {
        const instruction = found.get(line.address);
        if (line.text.includes('(bad)') || isFwaitPair(line.text, line.bytes)) continue;
        expect(instruction, `${line.address.toString(16)} ${line.text}`).toBeDefined();
        if (instruction === undefined) continue;
        expect(Buffer.from(instruction.bytes).toString('hex'), line.text).toBe(Buffer.from(line.bytes).toString('hex'));
        const rip = /# (?:0x)?([0-9a-f]+)/.exec(line.text)?.[1];
        expect(instruction.ripOperand?.target, line.text).toBe(rip === undefined ? undefined : BigInt(`0x${rip}`));
        const branch = /^(?:\S+ )*(?:j\w+|call|loop\w*|xbegin)(?:,p[nt])?\s+(?:0x)?([0-9a-f]+)(?: <|$)/.exec(
          line.text,
        )?.[1];
        expect(instruction.target, line.text).toBe(branch === undefined ? undefined : BigInt(`0x${branch}`));
        compared++;
      }
      expect(compared).toBeGreaterThan(20000);
    });
  }
});

/** objdump prints fwait and the x87 instruction after it as one. */
function isFwaitPair(text: string, bytes: Uint8Array): boolean {
  return bytes[0] === 0x9b && bytes.length > 1 && text.startsWith('f');
}
