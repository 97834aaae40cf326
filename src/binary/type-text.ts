// What can be said of any type: what is under its typedefs, its size, and how C writes it.

import type { ArrayType, QualifiedType, Type, TypedefType } from './types.js';

/** Longer chains of typedefs and qualifiers are not written by people; a hostile file may make a ring. */
const longestChain = 64;
const longestText = 200;

/** The type itself, without typedefs and qualifiers. */
export function strip(type: Type): Exclude<Type, TypedefType | QualifiedType> {
  let inner = type;
  for (let links = 0; links < longestChain; links++) {
    switch (inner.kind) {
      case 'typedef':
      case 'const':
      case 'volatile':
      case 'restrict':
      case 'atomic':
        inner = inner.target;
        break;
      default:
        return inner;
    }
  }
  return { kind: 'unsupported', reason: 'its typedefs have no end' };
}

/** How many bytes a value takes; undefined for what has no size (void, functions, arrays of unknown length). */
export function sizeOf(type: Type): number | undefined {
  const inner = strip(type);
  switch (inner.kind) {
    case 'void':
    case 'function':
    case 'unsupported':
      return undefined;
    case 'struct':
    case 'union':
    case 'class':
      return inner.isComplete ? inner.size : undefined;
    default:
      return inner.size;
  }
}

/** The size of all elements together. A loop, since a hostile file may have an array of itself. */
export function arraySize(array: ArrayType): number | undefined {
  let elements = 1;
  let inner: Type = array;
  for (let dimension = 0; dimension < longestChain; dimension++) {
    if (inner.kind !== 'array') {
      const each = sizeOf(inner);
      return each === undefined ? undefined : elements * each;
    }
    if (inner.count === undefined) return undefined;
    elements *= inner.count;
    inner = strip(inner.element);
  }
  return undefined;
}

/** The type as C would write it, with `inside` where a name would stand: `int (*compare)(const struct item *)`. */
export function typeText(type: Type, inside = ''): string {
  return declare(type, inside, { left: longestText });
}

/** `budget` counts the types that may still be written: a type may contain itself. */
function declare(type: Type, inside: string, budget: { left: number }): string {
  if (budget.left-- <= 0) return '…';
  const spaced = inside === '' ? '' : inside.startsWith('[') ? inside : ` ${inside}`;
  switch (type.kind) {
    case 'base':
    case 'typedef':
      return type.name + spaced;
    case 'void':
      return `void${spaced}`;
    case 'unsupported':
      return `?${spaced}`;
    case 'struct':
    case 'union':
    case 'class':
    case 'enum':
      return `${type.kind} ${type.name ?? '{...}'}${spaced}`;
    case 'pointer':
    case 'reference':
    case 'rvalue-reference': {
      const sign = type.kind === 'pointer' ? '*' : type.kind === 'reference' ? '&' : '&&';
      const needsBrackets = type.target.kind === 'function' || type.target.kind === 'array';
      return declare(type.target, needsBrackets ? `(${sign}${inside})` : sign + inside, budget);
    }
    case 'array':
      return declare(type.element, `${inside}[${type.count ?? ''}]`, budget);
    case 'function': {
      const parameters = type.parameters.map((parameter) => declare(parameter, '', budget));
      if (type.isVariadic) parameters.push('...');
      return declare(type.returns, `${inside}(${parameters.join(', ') || 'void'})`, budget);
    }
    default: {
      const word = type.kind === 'atomic' ? '_Atomic' : type.kind;
      const follows = type.target.kind === 'pointer';
      return follows
        ? declare(type.target, ` ${word}${spaced}`, budget)
        : `${word} ${declare(type.target, inside, budget)}`;
    }
  }
}
