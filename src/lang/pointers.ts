// Pointer arithmetic: sums scaled by the size of what is pointed to, and differences.

import { strip, typeText } from '../binary/type-text.js';
import { basicTypes, type Integer, pointerTo, targetOf, voidType } from './c-types.js';
import { inverse, twosIn } from './divisors.js';
import { addressOf, arithmetic, constant, convert, indexed, moved, negate, pointedTo } from './fold.js';
import type { Item, Items } from './items.js';
import type { Span } from './tree.js';
import { int32, int64, type Value } from './value.js';

interface Step {
  readonly integer: Integer;
  readonly value: () => Value;
}

/** `pointer + by`, or `pointer - by` with sign -1. Stays a place where it can, so that `p[i].x` is one operand. */
export function movedPointer(items: Items, pointer: Item, by: Step, options: { sign: 1 | -1; span: Span }): Item {
  const { sign, span } = options;
  const target = targetOf(pointer.type) ?? voidType;
  const size = items.sizeOf(target, span);
  const inner = strip(pointer.type);
  const count = inner.kind === 'array' ? inner.count : undefined;
  const value = () => {
    const step = convert(by.value(), int64);
    const place = pointedTo(pointer.value());
    if (step.op !== 'constant')
      return addressOf(indexed(place, sign === 1 ? step : negate(step, span), size, span), span);
    const index = step.value * BigInt(sign);
    const isInside = count !== undefined && index >= 0n && index < BigInt(count);
    return addressOf(moved(place, index * BigInt(size), isInside, span), span);
  };
  return { type: pointerTo(target), span, value };
}

/** `left - right` in elements. */
export function differenceOf(items: Items, left: Item, right: Item, span: Span): Item {
  const target = targetOf(left.type) ?? voidType;
  const size = items.sizeOf(target, span);
  const type = basicTypes['long int'];
  if (size === 0)
    throw items.complaints.type(span, 'these pointers point to nothing that has a size', 'cast to char *');
  if (items.sizeOf(targetOf(right.type) ?? voidType, span) !== size) {
    const message = `${typeText(left.type)} and ${typeText(right.type)} point to things of different size`;
    throw items.complaints.type(span, message, 'cast both to one type');
  }
  const value = () => {
    const bytes = arithmetic('subtract', convert(left.value(), int64), convert(right.value(), int64), int64, span);
    // The distance is a multiple of the size: shift out its twos, then multiply by the inverse of its odd part, as gcc does.
    const twos = BigInt(twosIn(BigInt(size)));
    const odd = BigInt(size) >> twos;
    const shifted = arithmetic('shift-right', bytes, constant(twos, int32, span), int64, span);
    return arithmetic('multiply', shifted, constant(inverse(odd), int64, span), int64, span);
  };
  return { type, span, value };
}
