// The parser: what is grouped with what, which text each node stands for, and what every refusal says.

import { describe, expect, it } from 'vitest';
import { FastprobeError } from '../../src/errors.js';
import { parse, type TypeNames } from '../../src/lang/parse.js';
import type { Node, TypeName } from '../../src/lang/tree.js';

/** The tree with parentheses around everything. */
function shown(node: Node): string {
  switch (node.kind) {
    case 'integer':
    case 'character':
      return `${node.value}`;
    case 'null':
      return 'NULL';
    case 'name':
      return node.name;
    case 'register':
      return `$${node.name}`;
    case 'member':
      return `(${shown(node.object)}${node.isArrow ? '->' : '.'}${node.name})`;
    case 'index':
      return `(${shown(node.object)}[${shown(node.index)}])`;
    case 'unary':
      return `(${node.operator}${shown(node.operand)})`;
    case 'cast':
      return `(<${typeShown(node.type)}>${shown(node.operand)})`;
    case 'sizeof':
      return `(sizeof ${shown(node.operand)})`;
    case 'sizeof-type':
      return `(sizeof <${typeShown(node.type)}>)`;
    case 'binary':
      return `(${shown(node.left)} ${node.operator} ${shown(node.right)})`;
    case 'conditional':
      return `(${shown(node.condition)} ? ${shown(node.then)} : ${shown(node.otherwise)})`;
  }
}

function typeShown({ base, derivations }: TypeName): string {
  return [base, ...derivations.map((each) => (each === 'pointer' ? '*' : `[${each}]`))].join(' ');
}

const tree = (text: string, names?: TypeNames) => shown(parse(text, names).root);

describe('grouping', () => {
  it.each([
    ['a + b * c', '(a + (b * c))'],
    ['a * b + c', '((a * b) + c)'],
    ['a - b - c', '((a - b) - c)'],
    ['a / b % c * d', '(((a / b) % c) * d)'],
    ['a << b + c >> d', '((a << (b + c)) >> d)'],
    ['a < b == c > d', '((a < b) == (c > d))'],
    ['a <= b != c >= d', '((a <= b) != (c >= d))'],
    ['a & b == c', '(a & (b == c))'],
    ['a | b ^ c & d', '(a | (b ^ (c & d)))'],
    ['a || b && c', '(a || (b && c))'],
    ['a && b || c && d', '((a && b) || (c && d))'],
    ['a || b || c', '((a || b) || c)'],
    ['a ? b : c ? d : e', '(a ? b : (c ? d : e))'],
    ['a ? b ? c : d : e', '(a ? (b ? c : d) : e)'],
    ['a || b ? c : d', '((a || b) ? c : d)'],
    ['(a + b) * c', '((a + b) * c)'],
    ['((a))', 'a'],
    ['-a - -b', '((-a) - (-b))'],
    ['- - a', '(-(-a))'],
    ['!a == ~b', '((!a) == (~b))'],
    ['*p++q'.replace('++', ' + +'), '((*p) + (+q))'],
    ['*p->next', '(*(p->next))'],
    ['&a[1].b', '(&((a[1]).b))'],
    ['a.b->c[d].e', '((((a.b)->c)[d]).e)'],
    ['a[b[c]]', '(a[(b[c])])'],
    ['p->next->next->id == 7', '((((p->next)->next)->id) == 7)'],
    ['i<0 || i>1000000', '((i < 0) || (i > 1000000))'],
    ['$rax & $al', '($rax & $al)'],
    ['p != NULL && true', '((p != NULL) && 1)'],
    ['ns::value + 1', '(ns::value + 1)'],
    ['a\n+\tb', '(a + b)'],
  ])('%s', (text, expected) => {
    expect(tree(text)).toBe(expected);
  });
});

describe('casts and sizeof', () => {
  it.each([
    ['(int)x + 1', '((<int>x) + 1)'],
    ['(int)(x + 1)', '(<int>(x + 1))'],
    ['(unsigned char)x', '(<unsigned char>x)'],
    ['(long unsigned)x', '(<long unsigned int>x)'],
    ['(int long long unsigned)x', '(<long long unsigned int>x)'],
    ['(signed)x', '(<int>x)'],
    ['(short)x', '(<short int>x)'],
    ['(const struct item *)p', '(<struct item *>p)'],
    ['((struct item *)p)->id', '((<struct item *>p)->id)'],
    ['(char * const *)p', '(<char * *>p)'],
    ['(item_t *)p', '(<item_t *>p)'],
    ['(item)p', '(<item>p)'],
    ['(item)(p)', '(<item>p)', { isType: () => true }],
    ['(uint8_t)-1', '(<uint8_t>(-1))'],
    ['(a)-1', '(a - 1)'],
    ['(a)*b', '(a * b)'],
    ['(a)*b', '(<a>(*b))', { isType: (name: string) => name === 'a' }],
    ['(a)&b', '(<a>(&b))', { isType: (name: string) => name === 'a' }],
    ['(a)+b*c', '((<a>(+b)) * c)', { isType: (name: string) => name === 'a' }],
    ['(int)(char)~x', '(<int>(<char>(~x)))'],
    ['sizeof(int)', '(sizeof <int>)'],
    ['sizeof(int) * 2', '((sizeof <int>) * 2)'],
    ['sizeof(struct item)', '(sizeof <struct item>)'],
    ['sizeof(int *[3][4])', '(sizeof <int * [4] [3]>)'],
    ['sizeof x + 1', '((sizeof x) + 1)'],
    ['sizeof(x) - 1', '((sizeof x) - 1)'],
    ['sizeof(size_t) - 1', '((sizeof size_t) - 1)'],
    ['sizeof(x)->y', '(sizeof (x->y))'],
    ['sizeof *p', '(sizeof (*p))'],
  ] as [string, string, TypeNames?][])('%s', (text, expected, names) => {
    expect(tree(text, names)).toBe(expected);
  });
});

describe('numbers and characters', () => {
  it.each([
    ['0', 0n],
    ['10', 10n],
    ['0x1F', 31n],
    ['017', 15n],
    ['0b101', 5n],
    ['10u', 10n],
    ['10UL', 10n],
    ['10llu', 10n],
    ['0xffffffffffffffff', 0xffffffffffffffffn],
    ['9223372036854775807', (1n << 63n) - 1n],
    ["'a'", 97n],
    ["'\\n'", 10n],
    ["'\\0'", 0n],
    ["'\\x41'", 65n],
    ["'\\xff'", -1n],
    ["'\\101'", 65n],
    ["'\\''", 39n],
    ["'\\\\'", 92n],
    ["'\"'", 34n],
    ["' '", 32n],
  ])('%s', (text, value) => {
    expect(parse(text).root).toMatchObject({ value, span: { start: 0, end: text.length } });
  });
});

describe('spans', () => {
  it('cover what was written, with the parentheses', () => {
    const text = ' (a + b) * p->next ';
    const root = parse(text).root as Extract<Node, { kind: 'binary' }>;
    const at = ({ span }: Node) => text.slice(span.start, span.end);
    expect(at(root)).toBe('(a + b) * p->next');
    expect(at(root.left)).toBe('(a + b)');
    expect(at(root.right)).toBe('p->next');
    expect(at((root.right as Extract<Node, { kind: 'member' }>).object)).toBe('p');
  });

  it('cover casts with their type', () => {
    const text = '1 + (unsigned char)x';
    const root = parse(text).root as Extract<Node, { kind: 'binary' }>;
    const cast = root.right as Extract<Node, { kind: 'cast' }>;
    expect(text.slice(cast.span.start, cast.span.end)).toBe('(unsigned char)x');
    expect(text.slice(cast.type.span.start, cast.type.span.end)).toBe('unsigned char');
  });
});

describe('refusals show the place', () => {
  const refusals: readonly [text: string, code: string, message: string, mark: string, hint: string][] = [
    ['', 'SYNTAX', 'the expression ends too early', '^', 'operand'],
    ['a +', 'SYNTAX', 'the expression ends too early', '   ^', 'operand'],
    ['(a + b', 'SYNTAX', "this '(' is never closed", '^', "add ')'"],
    ['a[1', 'SYNTAX', "this '[' is never closed", ' ^', "add ']'"],
    ['a[1)', 'SYNTAX', "']' was expected", '   ^', 'as in C'],
    ['a b', 'SYNTAX', "'b' can't stand here", '  ^', 'as in C'],
    ['a ? b', 'SYNTAX', "':' is missing", '     ^', "add ':'"],
    ['a.5', 'UNSUPPORTED', '.5 is a floating-point number', ' ^~', 'integers'],
    ['p->', 'SYNTAX', 'the expression ends too early', '   ^', 'operand'],
    ['p->*q', 'SYNTAX', 'the name of a member was expected', '   ^', 'as in C'],
    ['a @ b', 'SYNTAX', "'@' has no meaning here", '  ^', 'as in C'],
    ['$ + 1', 'SYNTAX', "the name of a register is missing after '$'", '^', '$rax'],
    ['1 + int', 'SYNTAX', "the type 'int' can't stand here", '    ^~~', '(int)x'],
    ['(short char)x', 'SYNTAX', "'short char' is not a type of C", ' ^~~~~~~~~~', 'as in C'],
    ['(unsigned signed)x', 'SYNTAX', "'unsigned signed' is not a type of C", ' ^~~~~~~~~~~~~~~', 'as in C'],
    ['(int (*)(int))x', 'UNSUPPORTED', "types with parentheses can't be written here", '     ^', 'void *'],
    ['089', 'SYNTAX', 'octal', '^~~', '0x1f'],
    ['0x', 'SYNTAX', "0x can't be read", '^~', '0x1f'],
    ['12ab', 'SYNTAX', "12ab can't be read", '^~~~', '0x1f'],
    ['1ulu', 'SYNTAX', "'ulu' is no suffix of a number", '^~~~', 'ull'],
    ['18446744073709551616', 'SYNTAX', 'is too large', '^~~~~~~~~~~~~~~~~~~~', 'largest'],
    ['9223372036854775808', 'SYNTAX', 'is too large', '^~~~~~~~~~~~~~~~~~~', "'u'"],
    ['x > 1.5', 'UNSUPPORTED', '1.5 is a floating-point number', '    ^~~', 'integers'],
    ['x > 1e3f', 'UNSUPPORTED', '1e3f is a floating-point number', '    ^~~~', 'integers'],
    ["x == 'ab'", 'SYNTAX', 'a character literal has one character', '     ^~~~', "'a'"],
    ["x == ''", 'SYNTAX', 'there is no character between the quotes', '     ^~', "'a'"],
    ["x == 'a", 'SYNTAX', "the closing ' is missing", '     ^~', "put a '"],
    ["'\\q'", 'SYNTAX', '\\q is not an escape', '^~~~', '\\n'],
    ["'\\400'", 'SYNTAX', '\\400 does not fit a character', '^~~~~~', '\\377'],
    ["L'a'", 'UNSUPPORTED', 'wide characters', '^~~~', 'number'],
    ['s == "abc"', 'UNSUPPORTED', "strings can't be compared", '     ^~~~~', 'p[0]'],
    ['s == "abc', 'SYNTAX', 'the closing " is missing', '     ^~~~', 'put a "'],
    ['n = 5', 'UNSUPPORTED', "assignments ('=') are not possible", '  ^', "'=='"],
    ['n += 5', 'UNSUPPORTED', "assignments ('+=') are not possible", '  ^~', 'does not change it'],
    ['n <<= 5', 'UNSUPPORTED', "assignments ('<<=') are not possible", '  ^~~', 'does not change it'],
    ['n++', 'UNSUPPORTED', "'++' would change the target", ' ^~', 'x + 1'],
    ['--n', 'UNSUPPORTED', "'--' would change the target", '^~', 'x - 1'],
    ['a, b', 'UNSUPPORTED', "',' operator", ' ^', 'one expression'],
    ['strlen(s) > 3', 'UNSUPPORTED', 'can’t be called', '^~~~~~~', 'variables'],
    ['a + p->f(1)', 'UNSUPPORTED', 'can’t be called', '    ^~~~~', 'variables'],
    ['a\t? @', 'SYNTAX', "'@' has no meaning here", '    ^', 'as in C'],
  ];

  it.each(refusals)('%s', (text, code, message, mark, hint) => {
    let error: unknown;
    try {
      parse(text);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(FastprobeError);
    const { code: actual, message: said, hint: advice } = error as FastprobeError;
    const [first, quoted, caret] = said.split('\n');
    expect(actual).toBe(`FASTPROBE_EXPRESSION_${code}`);
    expect(first).toContain(message);
    expect(quoted).toBe(`  ${text.replaceAll('\t', ' ')}`);
    expect(caret).toBe(`  ${mark}`);
    expect(advice).toContain(hint);
  });

  it('also when the text is endless or nested without end', () => {
    expect(() => parse('a+'.repeat(3000))).toThrow('6000 characters');
    expect(() => parse(`${'('.repeat(300)}a${')'.repeat(300)}`)).toThrow('nested too deeply');
    expect(() => parse(`${'-'.repeat(1)} ${'~'.repeat(300)}a`)).toThrow('nested too deeply');
    expect(() => parse(`a${'+a'.repeat(1900)}`)).toThrow('more than 300 operations deep');
    expect(() => parse(`a${'[1]'.repeat(400)}`)).toThrow('more than 300 operations deep');
    expect(shown(parse(`a${'+a'.repeat(299)}`).root)).toHaveLength(1 + 299 * 6);
  });
});
