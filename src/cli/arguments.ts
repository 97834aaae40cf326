// Reading what was typed: durations, numbers, lists of expressions.

import { FastprobeError } from '../errors.js';

/** An argument that can't be meant. */
export function badArgument(message: string, hint: string): FastprobeError {
  return new FastprobeError('FASTPROBE_BAD_ARGUMENT', message, { hint });
}

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** `10s`, `500ms`, `2m`, `1h`, or a number of seconds; in milliseconds. */
export function parseDuration(text: string): number {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text) ?? [];
  const milliseconds = Number(number) * (units[unit] ?? Number.NaN);
  // A timer holds 31 bits.
  if (milliseconds > 0 && milliseconds < 2 ** 31) return milliseconds;
  throw badArgument(`not a duration: ${text}`, 'write 500ms, 10s, 2m or 1h');
}

/** A whole number from 1 up. */
export function parseCount(text: string): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count > 0 && Number.isSafeInteger(count)) return count;
  throw badArgument(`not a number of hits: ${text}`, 'write a whole number from 1 up');
}

export function parsePid(text: string): number {
  if (/^\d+$/.test(text) && Number(text) > 0) return Number(text);
  throw badArgument(`not a process id: ${text}`, 'pgrep NAME or ps -e shows them');
}

/** Expressions with commas between them, other than those in parentheses, brackets and character constants. */
export function splitExpressions(text: string): string[] {
  const parts: string[] = [''];
  let depth = 0;
  for (const [piece] of text.matchAll(/'(?:[^'\\]|\\.)*'|[\s\S]/g)) {
    if (piece === '(' || piece === '[') depth += 1;
    if (piece === ')' || piece === ']') depth -= 1;
    if (piece === ',' && depth === 0) parts.push('');
    else parts[parts.length - 1] += piece;
  }
  const expressions = parts.map((part) => part.trim());
  if (expressions.every((expression) => expression !== '')) return expressions;
  throw badArgument(
    `an expression is missing in '${text}'`,
    "write them with commas between, such as --print 'n, q->len'",
  );
}
