// Compiled expressions against gcc: real machine code over real variables, in values, sizes and signs.

import { describe, expect, it } from 'vitest';
import { FastprobeError } from '../../src/errors.js';
import { check } from '../../src/lang/check.js';
import { parse } from '../../src/lang/parse.js';
import type { Scope } from '../../src/lang/scope.js';
import { isInstalled } from '../support/installed.js';
import { rounds } from '../support/length.js';
import { type Build, buildProgram, compareWithGcc, compareWithGdb, scopeOf } from './oracle.js';
import { Random, Writer } from './random.js';

const builds: readonly Build[] = [
  { name: 'gcc -O0', compiler: 'gcc', flags: ['-O0', '-no-pie'], codeAt: () => 0x2000_0000n },
  { name: 'gcc -O2', compiler: 'gcc', flags: ['-O2', '-no-pie'], codeAt: () => 0x10_0000_0000n },
  { name: 'gcc -O2 PIE, code near', compiler: 'gcc', flags: ['-O2', '-pie'], codeAt: (start) => start - 0x1000_0000n },
  {
    name: 'gcc -O1 PIE DWARF 4, code far',
    compiler: 'gcc',
    flags: ['-O1', '-pie', '-gdwarf-4'],
    codeAt: () => 0x10_0000_0000n,
  },
  ...(isInstalled('clang')
    ? [{ name: 'clang -O2', compiler: 'clang', flags: ['-O2', '-no-pie'], codeAt: () => 0x2000_0000n }]
    : []),
];

/** Not tested against gcc: variables that are not there in this build, and what C leaves undefined. */
function isLeftOut(error: unknown): boolean {
  if (!(error instanceof FastprobeError)) return false;
  return error.code === 'FASTPROBE_OPTIMISED_OUT' || /divides by zero|a shift by/.test(error.message);
}

/** By hand: what random expressions seldom meet. */
const chosen = [
  // A local that is kept in a register while its last use would write it.
  ...[
    'i - (i + 1)',
    '(i + 1) * (i ^ 5)',
    'i * i - i',
    '-i - i',
    'i - (i ^ 5)',
    'i - -i',
    'i * (i | 3)',
    'l - (l << 2)',
    'u < (u & 7)',
    '(i << 3) - i + (i >> 2)',
    'i ? i - 1 : i + 1',
  ],
  ...[
    'i < 0 || i > 1000000',
    'i >= 0 && i < 6 && row[i] != 0',
    '(u && i > 5) || i < 3',
    'j > 3 && (j < 5 || j > 7) && j',
  ],
  // What cannot be divided.
  ...[
    'i / j',
    'i % j',
    'l / ll',
    'l % ll',
    'i / (j + 1)',
    'l % (ll + 1)',
    'u / (j + 1)',
    'ul % (ll + 1)',
    'i / j + 1 > 0',
  ],
  ...[
    '(i / j) && 1',
    'j + 1 && i / (j + 1)',
    'j == -1 || i / (j + 1)',
    'u / w',
    'sc / (i8 | 1)',
    'l / 10',
    'ul / 10',
    'i / -1',
    'l % -1',
    'i % 1',
    'i / 1',
  ],
  // Null and other pointers that lead nowhere.
  ...[
    'nil->id',
    'nil && nil->id',
    '!nil || nil->next->id == 3',
    'p->next->next->next->next->id',
    '*(int *)8',
    'nil->values[2]',
  ],
  ...[
    '+nil->flag',
    'nil->point.y + 1',
    '&nil->id == 0',
    '(long)&nil->point.y',
    '(long)&((struct item *)0)->total',
    'nil->next == 0',
  ],
  // Widths that are made and cut.
  ...['(long)(unsigned)(l + 1)', '(unsigned long)(int)(ul * 3)', '(long)(int)(l ^ ll)', '(unsigned char)(i + 1) + 0l'],
  ...[
    '(signed char)(u >> 3)',
    '(unsigned short)(sc * 3)',
    '(short)(char)i',
    '(_Bool)l',
    '(_Bool)(i + j) + 1',
    '(_Bool)p',
  ],
  ...[
    '(unsigned long)sc',
    '(unsigned)sc > 5',
    'sc > 5u',
    'uc - 300',
    'us * us',
    '(long)us * us',
    '-uc',
    '~uc',
    '-u',
    '~ul',
  ],
  ...[
    'sc == uc',
    'c < uc',
    's < us',
    'us > 40000',
    's == -1',
    'us == 65535',
    'u16 == 300',
    'sc < -128',
    'uc >= 256',
    'b == 2',
  ],
  ...['sc < u', 'l < u', 'ul > i', 'l > ul', 'll < ull', 'u - 1 < 0', 'i < 0u', '-1 < u', 'sizeof(i) > -1', 'l == u'],
  // Bits.
  ...[
    'ul & 0x100000000',
    'ul & 0x8000000000000000',
    'l & 0xffffffff',
    '!(ul & 0x80000000)',
    'l & 0xffffffff00000000 && i',
  ],
  ...[
    'uc & 0x80',
    'sc & 0x80',
    'sc & 0x100',
    'us & 0x8000',
    '(s & 0x8000) != 0',
    'u & i',
    '(l & ul) == 0',
    '!(uc & u)',
  ],
  ...[
    'i % 4 == 0',
    'i % 8',
    'l % 16 != 0',
    'i % 4 == -1',
    'l % 2 == 1',
    'i / 2',
    'l / 1024',
    'i / 1073741824',
    'i % 1073741824',
  ],
  ...[
    'i % 1000 == 0',
    'i % 12 != 0',
    'i % -12 == 0',
    'u % 12 == 0',
    'u % 7 != 0',
    'l % 1000 == 0',
    'ul % 24 == 0',
    'l % 3 == 0',
  ],
  ...[
    '1 << (u & 31)',
    '1l << (u & 63)',
    'i >> (u & 31)',
    'u >> (w & 31)',
    'l >> (uc & 63)',
    'ul << (sc & 63)',
    'uc << 24',
  ],
  ...[
    'thing.flag + thing.small',
    'thing.level < 0',
    'thing.level == -16',
    '+thing.wide',
    '-thing.full',
    'thing.top << 12',
    '+p->yes',
  ],
  ...['thing.small - 8 < 0', 'thing.full - 1 < 0', 'thing.top - 2000000 < 0', '~thing.small', 'p->full > q->full'],
  // Pointers.
  ...[
    '*inside',
    'inside[-1]',
    'inside - row',
    '&row[5] - inside',
    '*&row[1]',
    '**table',
    '*table[1]',
    'table[1] - table[0]',
  ],
  ...[
    '&table[1][2] - *table',
    '(*(&table + 0))[1][1]',
    '&table[1] - table',
    '&grid[2] - &grid[0]',
    'grid[1] == &grid[0][4]',
  ],
  ...[
    'sizeof table',
    'sizeof table[0]',
    'sizeof(struct item)',
    'sizeof *p',
    'sizeof p->values',
    'sizeof(int[3][5])',
    'sizeof &row',
  ],
  ...[
    '(char *)&p->id - (char *)p',
    '(unsigned char *)pi - bytes > 0',
    '(p + 1)->id',
    '(&p[1])->tag',
    'p[1].values[i & 3]',
    '(q - 1)->count',
  ],
  ...[
    'po[1].text - po->text',
    '(po + i % 2) - po',
    'pv == pi - 2',
    'pv + 4 == (void *)(pi - 1)',
    'pv > NULL',
    'p ? p : NULL',
    'i ? 0 : p',
  ],
  ...['(unsigned long)p % 8', '(item_t *)pv == q', '((item_t *)p)->id', '*(char *)pi + *((unsigned char *)pi + 3)'],
  ...[
    '1 ? sc : uc',
    'i ? sc : u',
    'i ? l : u',
    'color == blue',
    'color != far && level != low',
    'level < middle',
    'high > level',
  ],
  ...[
    "'a' + 1",
    "'\\xff' < 0",
    '010 + 0x10 + 0b10',
    '2147483648',
    '0xffffffff',
    '4294967296 - 1',
    '0x8000000000000000 < 0',
    '1u - 2',
  ],
  ...['i + j', '!!i', '!(!i && !j)', '!(i || j) == !i', '-(i < j)', '~(i == j)', '(i < j) + (j < i)', '(i && j) << 3'],
];

describe('chosen expressions give what gcc gives', () => {
  for (const [index, build] of builds.entries()) {
    it(`${build.name}, each in several surroundings`, async () => {
      const { scope } = scopeOf(buildProgram(['0'], build, `chosen-empty-${index}`));
      const present = chosen.filter((text) => isCompilable(text, scope));
      const expressions = Array.from({ length: 4 }, () => present).flat();
      const program = buildProgram(expressions, build, `chosen-${index}`);
      const { problems } = await compareWithGcc(program, expressions, build, { seed: 50 + index, sets: 6 });
      expect(problems.slice(0, 10)).toEqual([]);
      expect(present.length).toBeGreaterThan(chosen.length * (build.flags.includes('-O2') ? 0.5 : 0.95));
    });
  }
});

function isCompilable(text: string, scope: Scope): boolean {
  try {
    check(parse(text, scope), scope);
    return true;
  } catch (error) {
    if (isLeftOut(error)) return false;
    throw error;
  }
}

describe('expressions give what gdb gives', () => {
  const count = rounds({ short: 300, long: 3000 });
  it.skipIf(!isInstalled('gdb'))(`${count} random ones, at the same stop`, { timeout: 120_000 }, () => {
    const build = builds[0] as Build;
    const random = expressionsFor(build, 4000, count * 4).filter((text) => !gdbDiffers.test(text));
    const expressions = [...random.slice(0, count), ...chosen.filter((text) => !gdbDiffers.test(text))];
    const program = buildProgram(expressions, build, 'gdb');
    const answers = compareWithGdb(program, expressions, build);
    const known = answers.filter(({ gdb }) => gdb !== undefined);
    const wrong = known.filter(({ gdb, ours, isCondition }) => ours !== (isCondition ? BigInt(gdb !== 0n) : gdb));
    expect(wrong.slice(0, 10)).toEqual([]);
    expect(known.length).toBeGreaterThan(expressions.length * 0.9);
  });

  it.skipIf(!isInstalled('gdb'))('all registers, in all widths', { timeout: 120_000 }, () => {
    const build = builds[1] as Build;
    const all = 'rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15'.split(' ');
    const narrow = 'eax ebx ecx edx esi edi ebp r8d r12d r15d ax bx si r9w al bl sil dil ah bh ch dh'.split(' ');
    const names = [...all, ...narrow].map((name) => `$${name}`);
    const random = new Random(77);
    const plain = [...names, '$sp', '$pc', '*(long *)$sp', '*(int *)((long)$sp + 8)', '$pc != 0'];
    const pairs = names.map(
      (name) => `(long)${name} ${random.pick(['+', '-', '^', '<', '=='])} (long)${random.pick(names)}`,
    );
    const expressions = [
      ...plain,
      ...pairs,
      ...names.map((name) => `(int)${name} > 5 && (char)${random.pick(names)} < 100`),
    ];
    const program = buildProgram(['0'], build, 'gdb-registers', expressions.length);
    const wrong = compareWithGdb(program, expressions, build).filter(
      ({ gdb, ours, isCondition }) => gdb === undefined || ours !== (isCondition ? BigInt(gdb !== 0n) : gdb),
    );
    expect(wrong).toEqual([]);
  });
});

/**
 * Where gdb does not follow C, or not safely: shifts, divisions that trap, the common type of `?:`, the sign of sizeof, and the
 * promotion of bit-fields.
 */
const gdbDiffers = /<<|>>|[/%?]|sizeof|\b(flag|small|level|wide|top|full|yes)\b/;

/** Random expressions that can be compiled for the build. */
function expressionsFor(build: Build, seed: number, count: number): string[] {
  const writer = new Writer(new Random(seed));
  const { scope } = scopeOf(buildProgram(['0'], build, `empty-${seed}`));
  const expressions: string[] = [];
  while (expressions.length < count) {
    const text = writer.expression();
    if (isCompilable(text, scope)) expressions.push(text);
  }
  return expressions;
}

describe('random expressions give what gcc gives', () => {
  const count = rounds({ short: 350, long: 5000 });
  for (const [index, build] of builds.entries()) {
    it(`${build.name}: ${count} expressions`, { timeout: 300_000 }, async () => {
      const expressions = expressionsFor(build, 1000 + index, count);
      const program = buildProgram(expressions, build, `random-${index}`);
      const options = { seed: index, sets: 4, mayDropOverflow: true };
      const { problems, compared } = await compareWithGcc(program, expressions, build, options);
      expect(problems.slice(0, 10)).toEqual([]);
      expect(compared).toBe(count * 4);
    });
  }
});
