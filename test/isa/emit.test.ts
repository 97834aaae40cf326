// The emitter: everything it emits is decoded again by both decoders, for all registers and widths.

import iced from 'iced-x86';
import { beforeAll, describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { decode, loadDecoder } from '../../src/isa/decode.js';
import { aluOperations, conditions, Emitter, type Memory, mem, negated, reaches, rip } from '../../src/isa/emit.js';
import { formatInstruction } from '../../src/isa/instruction.js';
import {
  r8,
  r12,
  r13,
  rax,
  rbp,
  rbx,
  rcx,
  rdi,
  rdx,
  registerName,
  registers,
  rsi,
  rsp,
  type Width,
} from '../../src/isa/registers.js';

beforeAll(loadDecoder);

const base = address(0x7f0000001000n);
const widths = [8, 16, 32, 64] as const;
const sizeName = { 8: 'byte', 16: 'word', 32: 'dword', 64: 'qword' } as const;

const formatter = new iced.Formatter(iced.FormatterSyntax.Intel);
formatter.hexPrefix = '0x';
formatter.hexSuffix = '';
formatter.uppercaseHex = false;
formatter.spaceAfterOperandSeparator = true;
formatter.spaceBetweenMemoryAddOperators = true;
formatter.memorySizeOptions = iced.MemorySizeOptions.Always;
formatter.signedImmediateOperands = false;
formatter.ripRelativeAddresses = true;
formatter.branchLeadingZeros = false;
formatter.showBranchSize = false;

/** Differences of taste between the two decoders' texts; none of them hides another operand, width or number. */
function normalised(text: string): string {
  return text
    .replace(/(lock )?movabs /, '$1mov ')
    .replace(/(r\d+)l\b/g, '$1b')
    .replace(/ \+ \w+\*1\b/, (match) => match.replace('*1', ''))
    .replace(/\b([cd]s|es|ss):/, '')
    .replace(/-?\b0x[0-9a-f]+\b|-?\b\d+\b/g, (number) => {
      const value = number.startsWith('-') ? -BigInt(number.slice(1)) : BigInt(number);
      return `${value}`;
    });
}

/** Emits, decodes with both, checks that they agree and that each byte is covered; returns Capstone's text. */
function emitted(write: (code: Emitter) => void): string[] {
  const code = new Emitter(base);
  write(code);
  const bytes = code.finish();
  expect(bytes.length).toBe(code.length);
  const decoder = new iced.Decoder(64, bytes, 0);
  decoder.ip = base;
  const texts = decode(bytes, base).map((instruction) => {
    expect(instruction.problem, Buffer.from(bytes).toString('hex')).toBeUndefined();
    const second = decoder.decode();
    const ours = formatInstruction(instruction);
    // iced's formatter prints a 64-bit immediate whose low half is zero as 0; its decoder has it right.
    const isWide = second.code === iced.Code.Mov_r64_imm64;
    const theirs = isWide ? ours.replace(/\S+$/, `${second.immediate64}`) : formatter.format(second);
    second.free();
    expect(comparable(theirs), Buffer.from(bytes).toString('hex')).toBe(comparable(ours));
    return normalised(ours);
  });
  decoder.free();
  return texts;
}

/** Immediates are printed signed by one and unsigned by the other: both become unsigned, cut at the operand's width. */
function comparable(text: string): string {
  return normalised(text)
    .replace(/^imul (\w+), (-?\d+)$/, 'imul $1, $1, $2')
    .replace(/^xchg ax, ax$/, 'nop')
    .replace(/^(push|.*,) (-?\d+)$/, (_, before: string, number: string) => {
      return `${before} ${BigInt.asUintN(immediateWidth(text), BigInt(number))}`;
    });
}

function immediateWidth(text: string): number {
  const pointed = /(byte|word|dword|qword) ptr/.exec(text)?.[1];
  if (pointed !== undefined) return { byte: 8, word: 16, dword: 32, qword: 64 }[pointed] ?? 64;
  const first = /^(?:lock )?\w+ (\w+)/.exec(text)?.[1] ?? '';
  for (const width of widths) if (registers.some((register) => registerName(register, width) === first)) return width;
  return 64;
}

/** Every shape of address that has its own encoding, with its text. */
const memories: readonly (readonly [Memory, string])[] = [
  ...registers.flatMap((b): [Memory, string][] => [
    [mem({ base: b }), `[${registerName(b)}]`],
    [mem({ base: b, disp: 8 }), `[${registerName(b)} + 8]`],
    [mem({ base: b, disp: -128 }), `[${registerName(b)} - 128]`],
    [mem({ base: b, disp: 128 }), `[${registerName(b)} + 128]`],
    [mem({ base: b, disp: -0x80000000 }), `[${registerName(b)} - 2147483648]`],
  ]),
  ...registers
    .filter((index) => index !== rsp)
    .flatMap((index): [Memory, string][] => [
      [mem({ base: rax, index }), `[rax + ${registerName(index)}]`],
      [mem({ base: rbp, index, scale: 2 }), `[rbp + ${registerName(index)}*2]`],
      [mem({ base: r13, index, scale: 4, disp: 4 }), `[r13 + ${registerName(index)}*4 + 4]`],
      [mem({ base: rsp, index, scale: 8, disp: 1000 }), `[rsp + ${registerName(index)}*8 + 1000]`],
      [mem({ base: r12, index, scale: 8 }), `[r12 + ${registerName(index)}*8]`],
      [mem({ index, scale: 8, disp: 16 }), `[${registerName(index)}*8 + 16]`],
    ]),
  [mem({ disp: 0x1000 }), '[4096]'],
  [rip(address(base + 0x100n)), '[rip]'],
];

function expectMemory(text: string | undefined, expected: string): void {
  expect(text?.replace(/\[rip [+-] \d+\]/, '[rip]').replace(/ \+ 0\]/, ']')).toBe(expected);
}

describe('moves', () => {
  it('between all registers at all widths', () => {
    for (const width of widths)
      for (const to of registers)
        for (const from of registers)
          expect(emitted((code) => code.mov(to, from, width))).toEqual([
            `mov ${registerName(to, width)}, ${registerName(from, width)}`,
          ]);
  });

  it('of constants take the shortest encoding that keeps the flags', () => {
    const rows: readonly (readonly [bigint, number, string])[] = [
      [0n, 5, 'mov eax, 0'],
      [0xffff_ffffn, 5, 'mov eax, 4294967295'],
      [-1n, 7, 'mov rax, -1'],
      [-0x8000_0000n, 7, 'mov rax, -2147483648'],
      [0x1_0000_0000n, 10, 'mov rax, 4294967296'],
      [0x8000_0000_0000_0000n, 10, `mov rax, ${-0x8000_0000_0000_0000n}`],
    ];
    for (const [value, length, text] of rows) {
      const code = new Emitter(base);
      code.movImmediate(rax, value);
      expect(code.length).toBe(length);
      const [seen] = emitted((again) => again.movImmediate(rax, value));
      expect(comparable(seen ?? '')).toBe(comparable(text));
    }
    for (const to of registers) {
      const name = registerName(to);
      expect(emitted((code) => code.movImmediate(to, 1))).toEqual([`mov ${registerName(to, 32)}, 1`]);
      expect(emitted((code) => code.movImmediate(to, -2))).toEqual([expect.stringContaining(`mov ${name}, `)]);
      expect(emitted((code) => code.movImmediate(to, 1n << 40n))).toEqual([`mov ${name}, ${1n << 40n}`]);
    }
  });

  it('to and from every shape of memory at all widths', () => {
    for (const [memory, text] of memories) {
      for (const width of widths) {
        const at = `${sizeName[width]} ptr ${text}`;
        expectMemory(emitted((code) => code.store(memory, rdi, width))[0], `mov ${at}, ${registerName(rdi, width)}`);
        expectMemory(emitted((code) => code.store(memory, r8, width))[0], `mov ${at}, ${registerName(r8, width)}`);
        expectMemory(emitted((code) => code.storeImmediate(memory, 5, width))[0], `mov ${at}, 5`);
        const load = width < 32 ? `movzx r9d, ${at}` : `mov ${registerName(9, width)}, ${at}`;
        expectMemory(emitted((code) => code.load(9, memory, width))[0], load);
        const signed = width === 64 ? 'mov' : width === 32 ? 'movsxd' : 'movsx';
        expectMemory(emitted((code) => code.loadSigned(rbx, memory, width))[0], `${signed} rbx, ${at}`);
      }
      expectMemory(emitted((code) => code.loadPart(rsi, memory, 8))[0], `mov sil, byte ptr ${text}`);
      expectMemory(emitted((code) => code.loadPart(rsi, memory, 16))[0], `mov si, word ptr ${text}`);
    }
  });

  it('with every register as the one that is loaded or stored', () => {
    for (const register of registers)
      for (const width of widths) {
        const at = `${sizeName[width]} ptr [rbx + 8]`;
        const memory = mem({ base: rbx, disp: 8 });
        const name = registerName(register, width);
        expect(emitted((code) => code.store(memory, register, width))).toEqual([`mov ${at}, ${name}`]);
        expect(emitted((code) => code.xchgMemory(memory, register, width))).toEqual([`xchg ${at}, ${name}`]);
        expect(emitted((code) => code.loadSigned(register, memory, width))[0]).toContain(
          `${registerName(register)}, ${at}`,
        );
      }
  });

  it('lea of every shape', () => {
    for (const [memory, text] of memories)
      expectMemory(emitted((code) => code.lea(rdx, memory))[0], `lea rdx, ${text}`);
  });

  it('that extend', () => {
    for (const to of registers)
      for (const from of registers) {
        const [wide, narrow] = [registerName(to), registerName(to, 32)];
        expect(
          emitted((code) => {
            code.zeroExtend(to, from, 8);
            code.zeroExtend(to, from, 16);
            code.zeroExtend(to, from, 32);
            code.signExtend(to, from, 8);
            code.signExtend(to, from, 16);
            code.signExtend(to, from, 32);
          }),
        ).toEqual([
          `movzx ${narrow}, ${registerName(from, 8)}`,
          `movzx ${narrow}, ${registerName(from, 16)}`,
          `mov ${narrow}, ${registerName(from, 32)}`,
          `movsx ${wide}, ${registerName(from, 8)}`,
          `movsx ${wide}, ${registerName(from, 16)}`,
          `movsxd ${wide}, ${registerName(from, 32)}`,
        ]);
      }
  });

  it('under every condition', () => {
    for (const condition of conditions)
      for (const to of registers) {
        expect(emitted((code) => code.set(condition, to))).toEqual([`set${condition} ${registerName(to, 8)}`]);
        expect(emitted((code) => code.cmov(condition, to, r12))).toEqual([`cmov${condition} ${registerName(to)}, r12`]);
      }
    expect(conditions.map(negated)).toEqual(conditions.map((_, i) => conditions[i ^ 1]));
  });

  it('from the thread pointer', () => {
    expect(emitted((code) => code.load(rax, mem({ segment: 'fs', disp: 0x28 })))).toEqual([
      'mov rax, qword ptr fs:[40]',
    ]);
    expect(emitted((code) => code.load(r8, mem({ segment: 'gs', base: rcx }), 32))).toEqual([
      'mov r8d, dword ptr gs:[rcx]',
    ]);
  });
});

describe('arithmetic', () => {
  it('between all registers at all widths', () => {
    for (const width of widths)
      for (const to of registers)
        for (const from of registers) {
          const operands = `${registerName(to, width)}, ${registerName(from, width)}`;
          expect(
            emitted((code) => {
              for (const operation of aluOperations) code.alu(operation, to, from, width);
              code.test(to, from, width);
            }),
          ).toEqual([...aluOperations.map((operation) => `${operation} ${operands}`), `test ${operands}`]);
        }
  });

  it('with constants of every size', () => {
    const values: Readonly<Record<Width, readonly number[]>> = {
      8: [1, -128, 255],
      16: [1, -128, 128, 0x7fff, 0xffff],
      32: [1, -128, 128, 0x7fffffff, 0xffffffff],
      64: [1, -128, 128, 0x7fffffff, -0x80000000],
    };
    for (const width of widths)
      for (const value of values[width])
        for (const operation of aluOperations)
          for (const to of registers) {
            const name = registerName(to, width);
            const expected = BigInt.asUintN(width, BigInt(value));
            const [register] = emitted((code) => code.aluImmediate(operation, to, value, width));
            expect(comparable(register ?? '')).toBe(`${operation} ${name}, ${expected}`);
          }
  });

  it('with constants too wide for the width is a bug and says so', () => {
    expect(() => new Emitter(base).aluImmediate('add', rax, 256, 8)).toThrow('does not fit');
    expect(() => new Emitter(base).aluImmediate('add', rax, 0x80000000, 64)).toThrow('does not fit');
    expect(() => new Emitter(base).storeImmediate(mem({ base: rax }), 1n << 40n)).toThrow('does not fit');
  });

  it('with every shape of memory', () => {
    for (const [memory, text] of memories)
      for (const width of widths) {
        const at = `${sizeName[width]} ptr ${text}`;
        const name = registerName(rsi, width);
        expectMemory(emitted((code) => code.aluLoad('sub', rsi, memory, width))[0], `sub ${name}, ${at}`);
        expectMemory(emitted((code) => code.aluStore('xor', memory, rsi, width))[0], `xor ${at}, ${name}`);
        expectMemory(emitted((code) => code.aluMemoryImmediate('cmp', memory, 7, width))[0], `cmp ${at}, 7`);
        if (width > 8) {
          expectMemory(emitted((code) => code.aluMemoryImmediate('cmp', memory, 1000, width))[0], `cmp ${at}, 1000`);
        }
        expectMemory(emitted((code) => code.testImmediate(memory, 3, width))[0], `test ${at}, 3`);
        expectMemory(emitted((code) => code.inc(memory, width))[0], `inc ${at}`);
        expectMemory(emitted((code) => code.neg(memory, width))[0], `neg ${at}`);
      }
  });

  it('of one operand', () => {
    for (const width of widths)
      for (const to of registers) {
        const name = registerName(to, width);
        expect(
          emitted((code) => {
            code.neg(to, width);
            code.not(to, width);
            code.inc(to, width);
            code.dec(to, width);
            code.mul(to, width);
            code.div(to, width);
            code.idiv(to, width);
            code.testImmediate(to, 1, width);
          }),
        ).toEqual([
          ...['neg', 'not', 'inc', 'dec', 'mul', 'div', 'idiv'].map((operation) => `${operation} ${name}`),
          `test ${name}, 1`,
        ]);
      }
    expect(
      emitted((code) => {
        code.cqo();
        code.cdq();
        code.zero(r12);
      }),
    ).toEqual(['cqo ', 'cdq ', 'xor r12d, r12d'].map((text) => text.trim()));
  });

  it('imul in its forms', () => {
    for (const width of [16, 32, 64] as const)
      for (const to of registers) {
        const name = registerName(to, width);
        expect(
          emitted((code) => {
            code.imul(to, rbp, width);
            code.imul(to, mem({ base: r12 }), width);
            code.imulImmediate(to, rbx, 10, width);
            code.imulImmediate(to, rbx, 1000, width);
          }),
        ).toEqual([
          `imul ${name}, ${registerName(rbp, width)}`,
          `imul ${name}, ${sizeName[width]} ptr [r12]`,
          `imul ${name}, ${registerName(rbx, width)}, 10`,
          `imul ${name}, ${registerName(rbx, width)}, 1000`,
        ]);
      }
  });

  it('shifts by a constant and by cl', () => {
    for (const operation of ['shl', 'shr', 'sar', 'rol', 'ror'] as const)
      for (const width of widths)
        for (const to of registers) {
          const name = registerName(to, width);
          expect(
            emitted((code) => {
              code.shift(operation, to, 1, width);
              code.shift(operation, to, width - 1, width);
              code.shiftByCl(operation, to, width);
            }),
          ).toEqual([`${operation} ${name}, 1`, `${operation} ${name}, ${width - 1}`, `${operation} ${name}, cl`]);
        }
    expect(() => new Emitter(base).shift('shl', rax, 64)).toThrow('shift by 64');
  });
});

describe('control flow', () => {
  it('jumps to labels before and after, short and near', () => {
    const code = new Emitter(base);
    const start = code.label('start');
    const end = code.label('end');
    code.bind(start);
    code.jump(end, 'short');
    code.jumpIf('ne', start, 'short');
    code.jump(start);
    code.jumpIf('g', end);
    code.call(end);
    code.bind(end);
    const found = decode(code.finish(), base);
    expect(found.map((instruction) => instruction.length)).toEqual([2, 2, 5, 6, 5]);
    expect(found.map((instruction) => instruction.target)).toEqual([
      code.addressOf(end),
      base,
      base,
      code.addressOf(end),
      code.addressOf(end),
    ]);
  });

  it('jumps to addresses at the very edge of reach, and no further', () => {
    const edge = address(base + 5n + 0x7fff_ffffn);
    const [jump] = emitted((code) => code.jump(edge));
    expect(jump).toBe(`jmp ${edge}`);
    expect(reaches(address(base + 5n), edge)).toBe(true);
    expect(reaches(address(base + 5n), address(edge + 1n))).toBe(false);
    const outOfReach = expect.objectContaining({ code: 'FASTPROBE_OUT_OF_REACH' });
    expect(() => new Emitter(base).jump(address(edge + 1n))).toThrow(outOfReach);
    expect(() => new Emitter(base).jump(address(base + 5n - 0x8000_0001n))).toThrow(outOfReach);
    expect(() => new Emitter(base).load(rax, rip(address(0x1000)))).toThrow(outOfReach);
  });

  it('refuses a short jump that turns out too long', () => {
    const code = new Emitter(base);
    const end = code.label('end');
    code.jump(end, 'short');
    code.nop(128);
    code.bind(end);
    expect(() => code.finish()).toThrow(expect.objectContaining({ code: 'FASTPROBE_OUT_OF_REACH' }));
  });

  it('does not let a label be forgotten or bound twice', () => {
    const code = new Emitter(base);
    const label = code.label('lost');
    code.jump(label);
    expect(() => code.finish()).toThrow('lost is used but never bound');
    code.bind(label);
    expect(() => code.bind(label)).toThrow('bound twice');
  });

  it('of every condition', () => {
    for (const condition of conditions)
      expect(emitted((code) => code.jumpIf(condition, address(base + 6n)))).toEqual([`j${condition} ${base + 6n}`]);
  });

  it('through registers and memory', () => {
    for (const register of registers) {
      const name = registerName(register);
      expect(
        emitted((code) => {
          code.jumpThrough(register);
          code.callThrough(register);
          code.jumpThrough(mem({ base: register }));
          code.callThrough(mem({ base: register, disp: 8 }));
        }),
      ).toEqual([`jmp ${name}`, `call ${name}`, `jmp qword ptr [${name}]`, `call qword ptr [${name} + 8]`]);
    }
    const code = new Emitter(base);
    code.jumpAbsolute(address(0x1122334455667788n));
    expect(Buffer.from(code.finish()).toString('hex')).toBe('ff25000000008877665544332211');
  });

  it('RIP-relative operands count from the end of the instruction, also behind an immediate', () => {
    const target = address(base + 0x1000n);
    const code = new Emitter(base);
    const data = code.label('data');
    code.aluMemoryImmediate('cmp', rip(target), 1, 32);
    code.storeImmediate(rip(target), 1000, 32);
    code.storeImmediate(rip(target), 1000, 16);
    code.aluMemoryImmediate('add', rip(data, 8), 1);
    code.load(rax, rip(data));
    code.bind(data);
    code.quad(0x1122334455667788n);
    const found = decode(code.finish(), base);
    const there = code.addressOf(data);
    expect(found.slice(0, 5).map((instruction) => instruction.ripOperand?.target)).toEqual([
      target,
      target,
      target,
      address(there + 8n),
      there,
    ]);
  });
});

describe('stack, flags, atomics and the rest', () => {
  it('push and pop', () => {
    for (const register of registers)
      expect(
        emitted((code) => {
          code.push(register);
          code.pop(register);
          code.pushMemory(mem({ base: register, disp: 8 }));
          code.popMemory(mem({ base: register, disp: 8 }));
        }),
      ).toEqual([
        `push ${registerName(register)}`,
        `pop ${registerName(register)}`,
        `push qword ptr [${registerName(register)} + 8]`,
        `pop qword ptr [${registerName(register)} + 8]`,
      ]);
    for (const value of [0, -1, 127, -128, 128, 0x7fffffff, -0x80000000]) {
      const [text] = emitted((code) => code.pushImmediate(value));
      expect(BigInt.asUintN(64, BigInt(text?.split(' ')[1] ?? ''))).toBe(BigInt.asUintN(64, BigInt(value)));
    }
  });

  it('atomics on every shape of memory', () => {
    for (const [memory, text] of memories)
      for (const width of widths) {
        const at = `${sizeName[width]} ptr ${text}`;
        const name = registerName(rdi, width);
        expectMemory(emitted((code) => code.lockInc(memory, width))[0], `lock inc ${at}`);
        expectMemory(emitted((code) => code.lockAdd(memory, rdi, width))[0], `lock add ${at}, ${name}`);
        expectMemory(emitted((code) => code.lockAddImmediate(memory, 3, width))[0], `lock add ${at}, 3`);
        expectMemory(emitted((code) => code.lockXadd(memory, rdi, width))[0], `lock xadd ${at}, ${name}`);
        expectMemory(emitted((code) => code.lockCmpxchg(memory, rdi, width))[0], `lock cmpxchg ${at}, ${name}`);
        expectMemory(emitted((code) => code.xchgMemory(memory, rdi, width))[0], `xchg ${at}, ${name}`);
      }
  });

  it('instructions without operands', () => {
    expect(
      emitted((code) => {
        code.pushfq();
        code.popfq();
        code.saveFlagsToAx();
        code.restoreFlagsFromAx();
        code.rdtsc();
        code.rdtscp();
        code.rdpid(rdi);
        code.rdfsbase(r12);
        code.syscall();
        code.mfence();
        code.lfence();
        code.pause();
        code.cld();
        code.endbr64();
        code.ret();
        code.int3();
        code.ud2();
      }),
    ).toEqual([
      'pushfq',
      'popfq',
      'lahf',
      'seto al',
      'add al, 127',
      'sahf',
      'rdtsc',
      'rdtscp',
      'rdpid rdi',
      'rdfsbase r12',
      'syscall',
      'mfence',
      'lfence',
      'pause',
      'cld',
      'endbr64',
      'ret',
      'int3',
      'ud2',
    ]);
  });

  it('nops of every length', () => {
    for (let size = 1; size <= 40; size++) {
      const texts = emitted((code) => {
        code.nop(size);
        expect(code.length).toBe(size);
      });
      expect(texts.length).toBe(Math.ceil(size / 9));
      expect(texts.every((text) => text.includes('nop'))).toBe(true);
    }
    const code = new Emitter(address(0x1003));
    code.align(16);
    expect(code.here).toBe(address(0x1010));
  });

  it('xchg of registers', () => {
    for (const width of widths)
      for (const a of registers)
        expect(emitted((code) => code.xchg(a, rcx, width))).toEqual([
          `xchg ${registerName(a, width)}, ${registerName(rcx, width)}`,
        ]);
  });
});
