// The operations for which x86 has fixed registers: division (rax, rdx) and shifts by a variable (rcx).

import { noRegisters, type RegisterSet, rax, rcx, rdx, registerSet } from '../../isa/registers.js';
import { type Arithmetic, type Value, walk } from '../value.js';

/** The exponent of a constant power of two from 2 to 2^30, which needs no division instruction. */
export function powerOfTwo(value: Value): number | undefined {
  if (value.op !== 'constant') return undefined;
  const exponent = value.value > 0n ? value.value.toString(2).length - 1 : 0;
  return exponent > 0 && exponent <= 30 && value.value === 1n << BigInt(exponent) ? exponent : undefined;
}

/** True if it takes a division instruction. Unsigned division by a power of two is a shift already. */
export function isHardDivision({ kind, right }: Arithmetic): boolean {
  return !kind.isSigned || powerOfTwo(right) === undefined;
}

export function fixedRegistersOf(value: Value): RegisterSet {
  let set = noRegisters;
  walk(value, (each) => {
    if ((each.op === 'divide' || each.op === 'remainder') && isHardDivision(each)) set |= registerSet(rax, rdx);
    if ((each.op === 'shift-left' || each.op === 'shift-right') && each.right.op !== 'constant')
      set |= registerSet(rcx);
  });
  return set;
}
