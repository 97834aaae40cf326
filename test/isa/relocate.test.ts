// Moving instructions: one test per shape, original and copy side by side.

import { beforeAll, describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { decode, loadDecoder } from '../../src/isa/decode.js';
import { Emitter } from '../../src/isa/emit.js';
import { formatInstruction } from '../../src/isa/instruction.js';
import { rcx, registerSet } from '../../src/isa/registers.js';
import { relocate, relocateInto } from '../../src/isa/relocate.js';
import { far, literalAt, move, near, refused, site } from './moved.js';
import { hex } from './objdump.js';

beforeAll(loadDecoder);

describe('instructions that do not depend on their place', () => {
  const shapes = [
    ['register moves', '4889d8'],
    ['stack frames', '55 4889e5 4883ec20'],
    ['locked instructions', 'f0480fb10b'],
    ['repeated string instructions', 'f348a5'],
    ['SSE with a register base', '660f6f4f10'],
    ['VEX', 'c5fc1007'],
    ['EVEX', '62f17c48100f'],
    ['thread-local loads', '64488b042528000000'],
    ['absolute addresses of 32 bits', '488b042500100000'],
    ['absolute addresses of 64 bits', '48a18877665544332211'],
    ['push and pop of memory', 'ff742408 8f442408'],
    ['long nops', '660f1f840000000000'],
    ['endbr64', 'f30f1efa'],
    ['enter and leave', 'c8100000 c9'],
    ['cpuid', '0fa2'],
  ] as const;
  for (const [name, bytes] of shapes) {
    it(`${name} are copied byte for byte`, () => {
      const copy = move(bytes);
      expect(copy.bytes).toBe(bytes.replaceAll(' ', ''));
      expect(copy.result).toMatchObject({ fallsThrough: true, emulatesCall: false, usesStack: false });
    });
  }

  it('every start is in the map from old to new', () => {
    expect([...move('55 4889e5 90').result.map]).toEqual([
      [site, near],
      [address(site + 1n), address(near + 1n)],
      [address(site + 4n), address(near + 4n)],
    ]);
  });
});

describe('RIP-relative operands in reach', () => {
  const shapes = [
    ['load keeps its target', '488b0500100000', 'mov rax, qword ptr [rip - 0xfe000] -> 0x7f0000002007'],
    ['store keeps its target', '48890500100000', 'mov qword ptr [rip - 0xfe000], rax -> 0x7f0000002007'],
    ['lea keeps its target', '488d0500100000', 'lea rax, [rip - 0xfe000] -> 0x7f0000002007'],
    ['compare with an immediate behind it', '833d0010000005', 'cmp dword ptr [rip - 0xfe000], 5 -> 0x7f0000002007'],
    ['SSE load under 66', '660f6f0500100000', 'movdqa xmm0, xmmword ptr [rip - 0xfe000] -> 0x7f0000002008'],
    ['VEX load', 'c5fc100500100000', 'vmovups ymm0, ymmword ptr [rip - 0xfe000] -> 0x7f0000002008'],
    ['EVEX load', '62f17c48100500100000', 'vmovups zmm0, zmmword ptr [rip - 0xfe000] -> 0x7f000000200a'],
    ['locked increment', 'f0ff0500100000', 'lock inc dword ptr [rip - 0xfe000] -> 0x7f0000002007'],
    ['push', 'ff3500100000', 'push qword ptr [rip - 0xfe000] -> 0x7f0000002006'],
    ['jump through memory', 'ff2500100000', 'jmp qword ptr [rip - 0xfe000] -> 0x7f0000002006'],
    ['3DNow! with its opcode behind it', '0f0f05001000009e', 'pfadd mm0, qword ptr [rip - 0xfe000] -> 0x7f0000002008'],
    [
      'multiply by an immediate',
      '69050010000044332211',
      'imul eax, dword ptr [rip - 0xfe000], 0x11223344 -> 0x7f000000200a',
    ],
    [
      'insert with an immediate',
      '66480f3a22050010000001',
      'pinsrq xmm0, qword ptr [rip - 0xfe000], 1 -> 0x7f000000200b',
    ],
    ['x87 load', 'dd0500100000', 'fld qword ptr [rip - 0xfe000] -> 0x7f0000002006'],
    ['in the thread segment', '64488b0500100000', 'mov rax, qword ptr fs:[rip - 0xfe000] -> 0x7f0000002008'],
    ['pop', '8f0500100000', 'pop qword ptr [rip - 0xfe000] -> 0x7f0000002006'],
    ['prefetch', '0f180500100000', 'prefetchnta byte ptr [rip - 0xfe000] -> 0x7f0000002007'],
  ] as const;
  for (const [name, bytes, text] of shapes) it(name, () => expect(move(bytes).text).toEqual([`${text}`]));
});

describe('direct jumps', () => {
  it('jmp rel8 becomes rel32', () => {
    const copy = move('eb10');
    expect(copy.text).toEqual(['jmp 0x7f0000001012']);
    expect(copy.bytes).toMatch(/^e9/);
    expect(copy.result.fallsThrough).toBe(false);
  });

  it('jmp rel32 keeps its target', () => expect(move('e900100000').text).toEqual(['jmp 0x7f0000002005']));

  it('jmp out of reach goes through a literal', () => {
    expect(move('e900100000', far).text).toEqual(['jmp qword ptr [rip + 2] = 0x7f0000002005']);
  });

  it('jcc rel8 becomes rel32', () => {
    const copy = move('7410');
    expect(copy.text).toEqual(['je 0x7f0000001012']);
    expect(copy.bytes).toMatch(/^0f84/);
    expect(copy.result.fallsThrough).toBe(true);
  });

  it('jcc rel32 keeps its target', () => expect(move('0f8f00100000').text).toEqual(['jg 0x7f0000002006']));

  it('jcc under a branch hint', () => expect(move('3e7410').text).toEqual(['je 0x7f0000001013']));

  it('jmp and jcc under a bnd prefix', () => {
    expect(move('f2e900100000').text).toEqual(['jmp 0x7f0000002006']);
    expect(move('f20f8400100000').text).toEqual(['je 0x7f0000002007']);
    expect(move('f2ff2500100000').text).toEqual(['bnd jmp qword ptr [rip - 0xfe000] -> 0x7f0000002007']);
  });

  it('jmp to itself stays an endless loop', () => expect(move('ebfe').text).toEqual(['jmp 0x7f0000100000']));

  it('loop to itself', () => {
    expect(move('e2fe').text).toEqual(['loop 0x7f0000100004', 'jmp 0x7f0000100009', 'jmp 0x7f0000100000']);
  });

  it('loop that counts in ecx keeps its prefix', () => expect(move('67e2f0').bytes).toMatch(/^67e2/));

  it('every condition survives', () => {
    for (let code = 0; code < 16; code++) {
      const bytes = `7${code.toString(16)}10`;
      const [original] = decode(hex(bytes), site);
      expect(move(bytes).text[0]?.split(' ')[0]).toBe(original?.mnemonic);
    }
  });

  it('jcc out of reach jumps over the far jump when it does not hold', () => {
    expect(move('7410', far).text).toEqual(['jne 0x7e0000000008', 'jmp qword ptr [rip] = 0x7f0000001012']);
  });

  it('loop is expanded', () => {
    expect(move('e2f0').text).toEqual(['loop 0x7f0000100004', 'jmp 0x7f0000100009', 'jmp 0x7f0000000ff2']);
  });

  it('loope and loopne are expanded', () => {
    expect(move('e1f0').text[0]).toBe('loope 0x7f0000100004');
    expect(move('e0f0').text[0]).toBe('loopne 0x7f0000100004');
  });

  it('jrcxz is expanded, and jecxz keeps counting 32 bits', () => {
    expect(move('e310').text[0]).toBe('jrcxz 0x7f0000100004');
    expect(move('67e310').text[0]).toBe('jecxz 0x7f0000100005');
  });

  it('loop out of reach', () => {
    expect(move('e2f0', far).text).toEqual([
      'loop 0x7e0000000004',
      'jmp 0x7e000000000a',
      'jmp qword ptr [rip + 6] = 0x7f0000000ff2',
    ]);
  });

  it('xbegin re-aims its abort', () => {
    expect(move('c7f810000000').text).toEqual(['xbegin 0x7f0000001016']);
    expect(move('c7f810000000', far).text).toEqual([
      'xbegin 0x7e0000000008',
      'jmp 0x7e000000000e',
      'jmp qword ptr [rip + 2] = 0x7f0000001016',
    ]);
  });
});

describe('calls', () => {
  it('call rel32 pushes the original return address and jumps', () => {
    const copy = move('e800100000');
    expect(copy.text).toEqual(['push qword ptr [rip + 0xa] = 0x7f0000001005', 'jmp 0x7f0000002005']);
    expect(copy.result).toMatchObject({ fallsThrough: false, emulatesCall: true });
  });

  it('call rel32 in the lower 2 GiB pushes an immediate', () => {
    const copy = move('e800100000', address(0x500000), {}, address(0x401000));
    expect(copy.text).toEqual(['push 0x401005', 'jmp 0x402005']);
  });

  it('call rel32 above 2 GiB does not push a sign-extended immediate', () => {
    const copy = move('e800100000', address(0x80100000), {}, address(0x80001000));
    expect(copy.text).toEqual(['push qword ptr [rip + 0xa] = 0x80001005', 'jmp 0x80002005']);
  });

  it('call rel32 out of reach', () => {
    expect(move('e800100000', far).text).toEqual([
      'push qword ptr [rip + 0xa] = 0x7f0000001005',
      'jmp qword ptr [rip + 0xc] = 0x7f0000002005',
    ]);
  });

  it('call with the prefixes of a TLS sequence', () => {
    expect(move('666648e800100000').text).toEqual([
      'push qword ptr [rip + 0xa] = 0x7f0000001008',
      'jmp 0x7f0000002008',
    ]);
  });

  it('call through a register', () => {
    expect(move('ffd0').text).toEqual(['push qword ptr [rip + 2] = 0x7f0000001002', 'jmp rax']);
    expect(move('41ffd3').text[1]).toBe('jmp r11');
    expect(move('3effd0').bytes).toMatch(/3effe0$/);
  });

  it('call through memory', () => {
    expect(move('ff5308').text[1]).toBe('jmp qword ptr [rbx + 8]');
    expect(move('41ff54c408').text[1]).toBe('jmp qword ptr [r12 + rax*8 + 8]');
    expect(move('ff142500100000').text[1]).toBe('jmp qword ptr [0x1000]');
    expect(move('64ff142528000000').text[1]).toBe('jmp qword ptr fs:[0x28]');
  });

  it('call through RIP-relative memory', () => {
    expect(move('ff1500100000').text).toEqual([
      'push qword ptr [rip + 0xa] = 0x7f0000001006',
      'jmp qword ptr [rip - 0xfe006] -> 0x7f0000002006',
    ]);
    expect(move('ff1500100000', far, { dead: registerSet(rcx) }).text).toEqual([
      'movabs rcx, 0x7f0000002006',
      'push qword ptr [rip + 8] = 0x7f0000001006',
      'jmp qword ptr [rcx]',
    ]);
    expect(refused('ff1500100000', far).reason).toBe('out-of-reach');
  });

  it('call through the stack allows for the push', () => {
    expect(move('ff1424').text[1]).toBe('jmp qword ptr [rsp + 8]');
    expect(move('ff542478').text[1]).toBe('jmp qword ptr [rsp + 0x80]');
    expect(move('ff9424f7ffff7f').text[1]).toBe('jmp qword ptr [rsp + 0x7fffffff]');
    expect(move('3eff542408').bytes).toMatch(/3eff642410$/);
    expect(move('ff54c408').text[1]).toBe('jmp qword ptr [rsp + rax*8 + 0x10]');
  });

  it('call through r12 is not taken for the stack', () => {
    expect(move('41ff1424').text[1]).toBe('jmp qword ptr [r12]');
  });

  it('call through the slot that the push overwrites is refused', () => {
    for (const bytes of ['ff5424f8', 'ff5424fc', 'ffd4']) expect(refused(bytes).reason).toBe('call-through-stack');
  });

  it('call through a displacement that cannot grow is refused', () => {
    expect(refused('ff9424f8ffff7f').reason).toBe('call-through-stack');
  });

  it('call before the end is refused, because it returns into overwritten bytes', () => {
    expect(refused('e800100000 90')).toMatchObject({
      reason: 'call-before-end',
      message: expect.stringContaining('cannot move call 0x7f0000002005 at 0x7f0000001000'),
    });
    expect(refused('ffd0 90').reason).toBe('call-before-end');
  });

  it('call to its own site goes to the copy, which the planner may aim elsewhere', () => {
    expect(move('e8fbffffff').text[1]).toBe('jmp 0x7f0000100000');
    expect(move('e8fbffffff', near, { aim: new Map([[site, far]]) }).text[1]).toBe(
      'jmp qword ptr [rip + 0xc] = 0x7e0000000000',
    );
  });

  it('call under a bnd prefix, which processors without MPX ignore', () => {
    expect(move('f2e800100000').text).toEqual(['push qword ptr [rip + 0xa] = 0x7f0000001006', 'jmp 0x7f0000002006']);
  });

  it('call through the stack in another segment is refused', () => {
    expect(refused('64ff1404').reason).toBe('call-through-stack');
  });

  it('call to the next instruction still finds its own address', () => {
    expect(move('e800000000').text).toEqual(['push qword ptr [rip + 0xa] = 0x7f0000001005', 'jmp 0x7f0000001005']);
  });

  it('far calls are refused, far jumps are not', () => {
    expect(refused('48ff1b').reason).toBe('far-call');
    expect(move('48ff2b').bytes).toBe('48ff2b');
  });
});

describe('leaving and trapping', () => {
  it('ret, ret n and jumps through registers do not fall through', () => {
    for (const bytes of ['c3', 'f3c3', 'c20800', 'ffe0', '3effe0', 'ff6308', 'ff24c500100000']) {
      const copy = move(bytes);
      expect(copy.bytes).toBe(bytes);
      expect(copy.result.fallsThrough).toBe(false);
    }
  });

  it('syscall is moved and noted', () => {
    expect(move('0f05')).toMatchObject({ bytes: '0f05', result: { hasSyscall: true, fallsThrough: true } });
    expect(move('cd80').result.hasSyscall).toBe(true);
  });

  it('int3 and ud2 are moved and noted', () => {
    expect(move('cc').result.hasTrap).toBe(true);
    expect(move('0f0b').result.hasTrap).toBe(true);
  });
});

describe('branches among moved instructions', () => {
  it('forwards: lands on the copy', () => {
    const copy = move('7403 4889d8 90');
    expect(copy.text).toEqual(['je 0x7f0000100009', 'mov rax, rbx', 'nop']);
    expect(copy.result.map.get(address(site + 5n))).toBe(0x7f0000100009n);
  });

  it('backwards: a whole loop is moved', () => {
    expect(move('48ffc8 75fb c3').text).toEqual(['dec rax', 'jne 0x7f0000100000', 'ret']);
  });

  it('to where the planner aims: a branch to the site runs the probe again', () => {
    const code = new Emitter(near);
    const top = code.label('trampoline');
    code.bind(top);
    code.nop(4);
    const result = relocateInto(code, decode(hex('48ffc8 75fb'), site), { aim: new Map([[site, top]]) });
    expect(result.kind).toBe('moved');
    expect(decode(code.finish(), near).map(formatInstruction)).toEqual([
      'nop dword ptr [rax]',
      'dec rax',
      'jne 0x7f0000100000',
    ]);
  });

  it('into the middle of one is refused', () => {
    expect(refused('7401 4889d8').reason).toBe('jump-into-instruction');
  });

  it('to the end of them goes to the original code', () => {
    expect(move('7403 4889d8').text[0]).toBe('je 0x7f0000001005');
  });
});

describe('operands that name the moved bytes', () => {
  it('load from them is refused', () => {
    expect(refused('488b05f9ffffff').reason).toBe('refers-to-moved-bytes');
    expect(refused('488b05f2ffffff').reason).toBe('refers-to-moved-bytes');
    expect(move('488b05f1ffffff').text).toHaveLength(1);
  });

  it('address of the site is allowed, address inside it is not', () => {
    expect(move('488d05f9ffffff').text[0]).toContain('-> 0x7f0000001000');
    expect(refused('488d05fdffffff').reason).toBe('refers-to-moved-bytes');
  });
});

describe('what is not understood', () => {
  it('is refused with the reason of the decoder', () => {
    expect(refused('c4e27b49c0')).toMatchObject({
      reason: 'not-understood',
      message: expect.stringContaining('Capstone cannot decode it'),
    });
    expect(refused('90 66c3').reason).toBe('not-understood');
    expect(refused('06').reason).toBe('not-understood');
  });
});

describe('relocate', () => {
  it('appends the jump back, before the literals', () => {
    const result = relocate(decode(hex('e2f0'), site), far);
    if (result.kind === 'unmovable') throw new Error(result.message);
    const jumps = decode(result.code.subarray(0, 16), far);
    expect(formatInstruction(jumps[3] ?? expect.fail())).toBe('jmp qword ptr [rip + 8]');
    expect(literalAt(result.code, far, jumps[3]?.ripOperand?.target)).toBe(site + 2n);
  });

  it('appends nothing after a call or a return', () => {
    const result = relocate(decode(hex('c3'), site), near);
    expect(result).toMatchObject({ kind: 'moved', code: hex('c3') });
  });
});
