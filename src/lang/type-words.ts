// Types as C spells them in casts: the words of the language in any order, tags, names, stars and bounds.

import type { Parser } from './parse.js';
import type { TypeName } from './tree.js';

const arithmeticWords = [
  'void',
  'char',
  'short',
  'int',
  'long',
  'signed',
  'unsigned',
  'float',
  'double',
  '_Bool',
  'bool',
];
const tags = ['struct', 'union', 'enum', 'class'];
const qualifiers = ['const', 'volatile', 'restrict', '_Atomic'];

/** The words of C that can only begin a type. */
export function isTypeWord(word: string): boolean {
  return arithmeticWords.includes(word) || tags.includes(word) || qualifiers.includes(word);
}

/** Each sorted list of words that names a type, and its usual spelling, which is gcc's in DWARF. */
const spellings: Readonly<Record<string, string>> = {
  void: 'void',
  _Bool: '_Bool',
  bool: '_Bool',
  char: 'char',
  'char signed': 'signed char',
  'char unsigned': 'unsigned char',
  short: 'short int',
  'short unsigned': 'short unsigned int',
  int: 'int',
  signed: 'int',
  '': 'int',
  unsigned: 'unsigned int',
  long: 'long int',
  'long unsigned': 'long unsigned int',
  'long long': 'long long int',
  'long long unsigned': 'long long unsigned int',
  float: 'float',
  double: 'double',
  'double long': 'long double',
};

/** Reads a type name up to, not including, the parenthesis that closes it. */
export function readTypeName(parser: Parser): TypeName {
  const first = parser.peek();
  const words: string[] = [];
  let named: string | undefined;
  let end = first.span.end;
  for (let token = parser.peek(); token.kind === 'name'; token = parser.peek()) {
    const { text } = token;
    if (tags.includes(text) && words.length === 0 && named === undefined) {
      parser.next();
      const name = parser.peek();
      if (name.kind !== 'name') throw parser.misplaced(name, `the name of the ${text} was expected`);
      named = `${text} ${name.text}`;
    } else if (arithmeticWords.includes(text) && named === undefined) words.push(text);
    else if (!qualifiers.includes(text)) {
      if (words.length > 0 || named !== undefined || tags.includes(text)) break;
      named = text;
    }
    end = parser.next().span.end;
  }
  const span = { start: first.span.start, end };
  const base = named ?? spelling(words);
  if (base === undefined) {
    throw parser.complaints.syntax(span, `'${parser.complaints.at(span)}' is not a type of C`, 'write it as in C');
  }
  const derivations: ('pointer' | number)[] = [];
  for (;;) {
    const token = parser.peek();
    if (parser.isSign('*')) {
      derivations.push('pointer');
      end = parser.next().span.end;
    } else if (token.kind === 'name' && qualifiers.includes(token.text)) end = parser.next().span.end;
    else break;
  }
  end = readBounds(parser, derivations) ?? end;
  return { base, derivations, span: { start: first.span.start, end } };
}

/** `[2][3]`; the last bound belongs to the innermost array. Returns where the last one ends. */
function readBounds(parser: Parser, derivations: ('pointer' | number)[]): number | undefined {
  const bounds: number[] = [];
  let end: number | undefined;
  while (parser.isSign('[')) {
    const opening = parser.next();
    const bound = parser.peek();
    if (bound.kind !== 'integer') throw parser.misplaced(bound, 'the length of an array was expected, as a number');
    parser.next();
    bounds.unshift(Number(bound.value));
    end = parser.expect(']', opening.span).span.end;
  }
  derivations.push(...bounds);
  if (parser.isSign('(')) {
    const { span } = parser.peek();
    const hint = 'use void * for a pointer to a function';
    throw parser.complaints.unsupported(span, "types with parentheses can't be written here", hint);
  }
  return end;
}

function spelling(words: readonly string[]): string | undefined {
  const plain = words.filter((word) => word !== 'int' && word !== 'signed');
  const count = (word: string) => words.filter((each) => each === word).length;
  if (['int', 'signed', 'unsigned', 'char', 'short'].some((word) => count(word) > 1)) return undefined;
  if (count('signed') + count('unsigned') > 1) return undefined;
  const isSignedChar = count('signed') === 1 && count('char') === 1;
  if (count('int') > 0 && plain.some((word) => !['short', 'long', 'unsigned'].includes(word))) return undefined;
  if (count('signed') > 0 && plain.some((word) => !['short', 'long', 'char'].includes(word))) return undefined;
  return spellings[(isSignedChar ? [...plain, 'signed'] : plain).sort().join(' ')];
}
