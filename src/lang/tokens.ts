// From text to tokens: names, numbers, characters and signs of C.

import type { Complaints } from './complaint.js';
import type { IntegerSuffix, Span } from './tree.js';

export type Token = { readonly span: Span } & (
  | { readonly kind: 'name' | 'register' | 'sign' | 'string'; readonly text: string }
  | { readonly kind: 'integer'; readonly value: bigint; readonly isDecimal: boolean; readonly suffix: IntegerSuffix }
  | { readonly kind: 'character'; readonly value: bigint }
  | { readonly kind: 'end'; readonly text: '' }
);

/** All signs of C, so that `a += 1` is refused for what it is; longest first, since the first that fits is taken. */
const signs =
  '<<= >>= ... -> ++ -- << >> <= >= == != && || += -= *= /= %= &= ^= |= ( ) [ ] { } . , ; ? : + - * / % & | ^ ! ~ < > ='.split(
    ' ',
  );

const patterns = {
  space: /\s+/y,
  name: /[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*/y,
  register: /\$[A-Za-z0-9_]*/y,
  number: /(?:\.?[0-9])(?:[eEpP][+-]|[A-Za-z0-9_.])*/y,
  quoted: /(?:L|u8|u|U)?(['"])(?:\\.|(?!\1)[^\\])*\1?/sy,
};

const simpleEscapes: Readonly<Record<string, number>> = {
  a: 7,
  b: 8,
  e: 27,
  f: 12,
  n: 10,
  r: 13,
  t: 9,
  v: 11,
  '\\': 92,
  "'": 39,
  '"': 34,
  '?': 63,
};

/** All tokens of the text, and an `end` after them. */
export function tokensOf(complaints: Complaints): Token[] {
  const { text } = complaints;
  const tokens: Token[] = [];
  let at = 0;
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(text)?.[0];
  };
  while (at < text.length) {
    const space = match(patterns.space);
    if (space !== undefined) {
      at += space.length;
      continue;
    }
    const token = nextToken(complaints, at, match);
    tokens.push(token);
    at = token.span.end;
  }
  tokens.push({ kind: 'end', text: '', span: { start: text.length, end: text.length } });
  return tokens;
}

function nextToken(complaints: Complaints, start: number, match: (pattern: RegExp) => string | undefined): Token {
  const { text } = complaints;
  const spanOf = (found: string): Span => ({ start, end: start + found.length });
  const quoted = match(patterns.quoted);
  if (quoted !== undefined) return quotedToken(complaints, quoted, spanOf(quoted));
  const name = match(patterns.name);
  if (name !== undefined) return { kind: 'name', text: name, span: spanOf(name) };
  const register = match(patterns.register);
  if (register !== undefined) return { kind: 'register', text: register.slice(1), span: spanOf(register) };
  const number = match(patterns.number);
  if (number !== undefined) return numberToken(complaints, number, spanOf(number));
  const sign = signs.find((each) => text.startsWith(each, start));
  if (sign !== undefined) return { kind: 'sign', text: sign, span: spanOf(sign) };
  const strange = String.fromCodePoint(text.codePointAt(start) ?? 0);
  throw complaints.syntax(spanOf(strange), `'${strange}' has no meaning here`, 'write an expression as in C');
}

function numberToken(complaints: Complaints, text: string, span: Span): Token {
  const parts = /^(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)([uUlL]*)$/.exec(text);
  const digits = parts?.[1];
  if (digits === undefined) throw notANumber(complaints, text, span);
  const suffix = (parts?.[2] ?? '').toLowerCase();
  const longs = suffix.replace('u', '').length;
  if (!/^(u?l{0,2}|l{1,2}u)$/.test(suffix) || /lL|Ll/.test(text)) {
    throw complaints.syntax(span, `'${parts?.[2]}' is no suffix of a number`, 'the suffixes are u, l, ul, ll and ull');
  }
  const isDecimal = !digits.startsWith('0');
  const isOctal = /^0[0-7]+$/.test(digits);
  const value = BigInt(isOctal ? `0o${digits.slice(1)}` : digits);
  const isUnsigned = suffix.includes('u');
  const limit = isDecimal && !isUnsigned ? 1n << 63n : 1n << 64n;
  if (value >= limit) {
    const hint = `the largest number is ${limit - 1n}${value < 1n << 64n ? "; for larger ones add a 'u'" : ''}`;
    throw complaints.syntax(span, `${text} is too large`, hint);
  }
  return { kind: 'integer', value, isDecimal, suffix: { isUnsigned, longs: longs as 0 | 1 | 2 }, span };
}

function notANumber(complaints: Complaints, text: string, span: Span): Error {
  if (/^0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP]|^[0-9]*(\.[0-9]*([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)[fFlL]?$/.test(text)) {
    return complaints.unsupported(
      span,
      `${text} is a floating-point number, which expressions can't have yet`,
      noFloats,
    );
  }
  const why = /^0[0-9]+$/.test(text) ? 'a number that begins with 0 is octal and has no 8 or 9' : 'it is not a number';
  return complaints.syntax(
    span,
    `${text} can't be read: ${why}`,
    'write 10, 0x1f, 017 or 0b101, with u, l or ul behind',
  );
}

export const noFloats = 'use integers; for the bits of a float, cast the address: *(unsigned *)&x';

function quotedToken(complaints: Complaints, text: string, span: Span): Token {
  const quote = text.includes('"') && !text.includes("'") ? '"' : (/['"]/.exec(text)?.[0] ?? '"');
  const opening = text.indexOf(quote);
  if (text.length - opening < 2 || !text.endsWith(quote)) {
    throw complaints.syntax(span, `the closing ${quote} is missing`, `put a ${quote} at the end`);
  }
  if (quote === '"') return { kind: 'string', text, span };
  if (opening > 0) {
    throw complaints.unsupported(span, 'wide characters are not known here', "write its number, such as 0xe9, or 'a'");
  }
  return { kind: 'character', value: characterValue(complaints, text.slice(1, -1), span), span };
}

/** As gcc: an int with the value of a signed char. */
function characterValue(complaints: Complaints, inside: string, span: Span): bigint {
  const signed = (code: number) => BigInt.asIntN(8, BigInt(code));
  if (inside.length === 1 && inside !== '\\' && inside.charCodeAt(0) < 128) return signed(inside.charCodeAt(0));
  const numeric = /^\\(?:x([0-9a-fA-F]+)|([0-7]{1,3}))$/.exec(inside);
  if (numeric !== null) {
    const code = numeric[1] === undefined ? Number.parseInt(numeric[2] ?? '', 8) : Number.parseInt(numeric[1], 16);
    if (code < 256) return signed(code);
    throw complaints.syntax(span, `${inside} does not fit a character`, 'the largest is \\xff or \\377');
  }
  const simple = inside.length === 2 && inside.startsWith('\\') ? simpleEscapes[inside.charAt(1)] : undefined;
  if (simple !== undefined) return signed(simple);
  if (inside === '')
    throw complaints.syntax(span, 'there is no character between the quotes', "write one, such as 'a'");
  if (inside.startsWith('\\')) {
    throw complaints.syntax(
      span,
      `${inside} is not an escape`,
      'known are \\n \\t \\0 \\\\ \\\' \\" \\x41 \\101 and C’s others',
    );
  }
  throw complaints.syntax(span, 'a character literal has one character of ASCII', "write one, such as 'a' or '\\xe9'");
}
