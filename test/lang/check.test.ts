// Types and names in expressions: what they come to, and what every refusal says.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openBinary } from '../../src/binary/binary.js';
import { typeText } from '../../src/binary/type-text.js';
import { FastprobeError } from '../../src/errors.js';
import { check } from '../../src/lang/check.js';
import { scratchNeeded } from '../../src/lang/compile.js';
import { parse } from '../../src/lang/parse.js';
import { type Scope, scopeAt } from '../../src/lang/scope.js';
import { folder, sources } from './oracle.js';

/** The scope at the line marked "here". */
function scopeIn(file: string, ...flags: string[]): Scope {
  const source = join(sources, file);
  const program = join(folder, `${basename(file)}${flags.join('')}`);
  execFileSync(file.endsWith('.cc') ? 'g++' : 'gcc', ['-g', '-w', ...flags, source, '-o', program]);
  const binary = openBinary(program);
  const line =
    readFileSync(source, 'utf8')
      .split('\n')
      .findIndex((text) => text.includes('here')) + 1;
  const [site] = binary.sitesOfLine(file, line).sites;
  if (site === undefined) throw new Error(`${file} has no code at line ${line}`);
  return scopeAt(binary, site.address);
}

const scope = scopeIn('examples.c', '-O0');
const typed = (text: string, at = scope) => check(parse(text, at), at);

describe('types', () => {
  it.each([
    ['i', 'int'],
    ['c', 'char'],
    ['c + c', 'int'],
    ['-c', 'int'],
    ['i + 1u', 'unsigned int'],
    ['i + size', 'long unsigned int'],
    ['1l + 1u', 'long int'],
    ['1ll + 1ul', 'long long unsigned int'],
    ['c << size', 'int'],
    ['size >> c', 'long unsigned int'],
    ['i < size', 'int'],
    ['!size', 'int'],
    ['p', 'struct node *'],
    ['p->next', 'struct node *'],
    ['&p->flags', 'unsigned int *'],
    ['&p', 'struct node **'],
    ['a', 'int *'],
    ['&a', 'int (*)[10]'],
    ['a + 1', 'int *'],
    ['text - 1', 'unsigned char *'],
    ['text - text', 'long int'],
    ['sizeof a', 'long unsigned int'],
    ['i ? p : NULL', 'struct node *'],
    ['i ? 0 : p', 'struct node *'],
    ['i ? (void *)a : p', 'void *'],
    ['i ? c : 1u', 'unsigned int'],
    ['(unsigned short)i', 'short unsigned int'],
    ['(struct node *)size', 'struct node *'],
    ['(uint16_t)i', 'short unsigned int'],
    ['p->level', 'unsigned int'],
    ['p->level + 1', 'int'],
    ['$rax', 'long int'],
    ['$eax', 'int'],
    ['$al', 'signed char'],
    ['$sp', 'long unsigned int'],
    ['0x80000000', 'unsigned int'],
    ['2147483648', 'long int'],
    ["'a'", 'int'],
    ['NULL', 'void *'],
    ['true', 'int'],
    ['state', 'enum state'],
    ['state + 0', 'unsigned int'],
  ])('%s is %s', (text, type) => {
    expect(typeText(typed(text).type)).toBe(type);
  });
});

describe('constants', () => {
  it.each([
    ['1 + 2 * 3', 7n],
    ['-1 > 0u', 1n],
    ['(char)200', -56n],
    ['(unsigned char)-1', 255n],
    ['1u - 2', 0xffffffffn],
    ['2147483647 + 1', -2147483648n],
    ['-7 / 2', -3n],
    ['-7 % 2', -1n],
    ['-8 >> 1', -4n],
    ['0x80000000 >> 31', 1n],
    ['sizeof(struct node)', 32n],
    ['sizeof a / sizeof a[0]', 10n],
    ['sizeof local.next->next->id', 4n],
    ['sizeof real + sizeof wide', 24n],
    ['sizeof(char *)', 8n],
    ['0 && p->id', 0n],
    ['1 || p->id', 1n],
    ['1 ? 5 : p->id', 5n],
    ['(long)&((struct node *)0)->flags', 16n],
    ['(_Bool)256', 1n],
    ['(enum state)stopped', 7n],
  ])('%s', (text, value) => {
    const result = typed(text).value;
    expect(result).toMatchObject(text.startsWith('(long)&') ? { place: { offset: 16 } } : { op: 'constant', value });
  });

  it('are enumerators beside a value of their type', () => {
    expect(typed('state == stopped').value).toMatchObject({ right: { value: 7n } });
    expect(typed('running != state').value).toMatchObject({ right: { value: 1n } });
    expect(typed('state == idle || state == running').value.op).toBe('either');
    expect(() => typed('i == stopped')).toThrow("no variable 'stopped' is visible");
  });
});

describe('refusals', () => {
  const refusals: readonly [text: string, code: string, message: string, mark: string, hint: string][] = [
    ['local', 'EXPRESSION_TYPE', "'local' is a whole struct node", '^~~~~', 'id, next, flags'],
    ['i + local', 'EXPRESSION_TYPE', "'+' needs an integer here, and this is struct node", '    ^~~~~', 'members'],
    ['*i', 'EXPRESSION_TYPE', "'*' needs a pointer", '^~', '*(int *)x'],
    ['i[n]', 'EXPRESSION_TYPE', "can't be indexed", '^~~~', 'array'],
    ['a[p]', 'EXPRESSION_TYPE', 'an integer is needed here', '  ^', 'cast'],
    ['p.id', 'EXPRESSION_TYPE', "'.' needs a struct", '^~~~', "'->id'"],
    ['local->id', 'EXPRESSION_TYPE', "'->' needs a pointer", '^~~~~~~~~', "'.id'"],
    ['i->id', 'EXPRESSION_TYPE', "'->' needs a pointer", '^~~~~', 'pointer to a struct'],
    ['i.id', 'EXPRESSION_TYPE', 'has no members', '^~~~', 'structs'],
    ['p->nothing', 'EXPRESSION_TYPE', "struct node has no member 'nothing'", '^~~~~~~~~~', 'id, next, flags, tag'],
    ['&5', 'EXPRESSION_TYPE', "'5' is a computed value", '^~', 'variable'],
    ['&(i + 1)', 'EXPRESSION_TYPE', 'is a computed value', '^~~~~~~~', 'variable'],
    ['&p->ready', 'EXPRESSION_TYPE', 'a bit-field has no address', '^~~~~~~~~', 'struct'],
    ['sizeof p->ready', 'EXPRESSION_TYPE', 'a bit-field has no size', '^~~~~~~~~~~~~~~', 'struct'],
    ['p + p', 'EXPRESSION_TYPE', "'+' needs an integer here, and this is struct node *", '^', 'cast it'],
    ['p * 2', 'EXPRESSION_TYPE', "'*' needs an integer here", '^', 'cast it'],
    ['-p', 'EXPRESSION_TYPE', "'-' needs an integer here", ' ^', 'cast it'],
    ['1 - p', 'EXPRESSION_TYPE', "'-' needs an integer here", '    ^', 'cast it'],
    ['p - text', 'EXPRESSION_TYPE', 'things of different size', '^~~~~~~~', 'cast both'],
    ['i / 0', 'EXPRESSION_TYPE', 'this divides by zero', '    ^', 'something else'],
    ['i % (2 - 2)', 'EXPRESSION_TYPE', 'this divides by zero', '    ^~~~~~~', 'something else'],
    ['i << 32', 'EXPRESSION_TYPE', 'a shift by 32 is not defined for 32 bits', '     ^~', '0 to 31'],
    ['size >> -1', 'EXPRESSION_TYPE', 'a shift by -1 is not defined for 64 bits', '        ^~', '0 to 63'],
    ['i ? p : i', 'EXPRESSION_TYPE', "branches of '?:' don't fit", '^~~~~~~~~', 'cast'],
    ['(struct node)p', 'EXPRESSION_TYPE', 'nothing can be cast to struct node', ' ^~~~~~~~~~~', '*(struct item *)p'],
    ['sizeof(nothing)', 'EXPRESSION_TYPE', "'nothing' is neither a variable here nor a type", '      ^~~~~~~~~', ''],
    ['$rxx', 'EXPRESSION_TYPE', 'there is no register $rxx', '^~~~', '$rax'],
    ['$xmm0', 'EXPRESSION_UNSUPPORTED', "$xmm0 can't be read", '^~~~~', '$rax'],
    ['$arg1', 'EXPRESSION_UNSUPPORTED', '$arg1 is not known yet', '^~~~~', '$rdi'],
    ['ratio > 1', 'EXPRESSION_UNSUPPORTED', "floating point can't be computed with yet", '^~~~~', 'integers'],
    ['real', 'EXPRESSION_UNSUPPORTED', "floating point can't be computed with yet", '^~~~', 'integers'],
    ['(double)i', 'EXPRESSION_UNSUPPORTED', "floating point can't be computed with yet", '^~~~~~~~~', 'integers'],
    ['wide', 'EXPRESSION_UNSUPPORTED', "'wide' has the type __int128", '^~~~', 'part of it'],
    ['*(void *)p', 'EXPRESSION_UNSUPPORTED', 'has the type void', '^~~~~~~~~~', '*(int *)p'],
    ['own', 'EXPRESSION_UNSUPPORTED', 'it is thread-local', '^~~', 'choose'],
  ];

  it.each(refusals)('%s', (text, code, message, mark, hint) => {
    let error: unknown;
    try {
      typed(text);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(FastprobeError);
    const { code: actual, message: said, hint: advice } = error as FastprobeError;
    const [first, quoted, caret] = said.split('\n');
    expect(actual).toBe(`FASTPROBE_${code}`);
    expect(first).toContain(message);
    expect([quoted, caret]).toEqual([`  ${text}`, `  ${mark}`]);
    expect(advice).toContain(hint);
  });

  it('of unknown names suggest others', () => {
    expect(() => typed('nn > 1')).toThrow("no variable 'nn' is visible");
    expect(() => typed('(struct nod *)p')).toThrow("no type 'struct nod'");
  });

  it('of optimised-out variables say where they exist', () => {
    const optimised = scopeIn('gone.c', '-O2');
    let error: unknown;
    try {
      typed('early > 3', optimised);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ code: 'FASTPROBE_OPTIMISED_OUT' });
    expect((error as FastprobeError).message).toBe("'early' (int) is optimised out here\n  early > 3\n  ^~~~~");
    expect((error as FastprobeError).hint).toMatch(/^it exists at lines? \d/);
    expect(typed('sizeof early', optimised).value).toMatchObject({ op: 'constant', value: 4n });
  });
});

describe('C++', () => {
  const cxx = scopeIn('shapes.cc', '-O0');

  it('references stand for what they refer to', () => {
    expect(typeText(typed('square.side', cxx).type)).toBe('int');
    expect(typeText(typed('square.corner.x + moved.y', cxx).type)).toBe('int');
    expect(typeText(typed('pointer', cxx).type)).toBe('int *');
    expect(typeText(typed('&moved', cxx).type)).toBe('struct Point *');
  });

  it('members of base classes are members, and names may be qualified', () => {
    expect(typed('square.x', cxx).value).toMatchObject({ op: 'load', place: { offset: 8 } });
    expect(typed('square.name', cxx).value).toMatchObject({ op: 'load', place: { offset: 0 } });
    expect(typeText(typed('geometry::scale', cxx).type)).toBe('int');
  });
});

describe('large expressions', () => {
  it('are checked and compiled in reasonable time', () => {
    expect(scratchNeeded(typed(`i${'+n'.repeat(290)}`), { as: 'value' })).toBe(1);
    expect(scratchNeeded(typed(`i${'*(n'.repeat(60)}${')'.repeat(60)}`), { as: 'value' })).toBe(1);
    expect(scratchNeeded(typed(`p${'->next'.repeat(290)}->id`), { as: 'value' })).toBe(1);
    const nested = (depth: number): string => (depth === 0 ? 'p' : `(i ? NULL : ${nested(depth - 1)})`);
    expect(typeText(typed(nested(60)).type)).toBe('struct node *');
    const chain = Array.from({ length: 280 }, (_, index) => `i != ${index}`).join(' && ');
    expect(scratchNeeded(typed(chain), { as: 'condition' })).toBe(0);
  });
});
