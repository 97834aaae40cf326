// The operations for which x86 has fixed registers: division (rax, rdx) and shifts by a variable (rcx).

import { noRegisters, type RegisterSet, rax, rcx, rdx, registerSet } from '../../isa/registers.js';
import { powerOfTwo, reciprocalOf } from '../divisors.js';
import { type Arithmetic, type Value, walk } from '../value.js';

/** True if it takes a division instruction. */
function isHardDivision({ op, kind, right }: Arithmetic): boolean {
  if (op !== 'divide' && op !== 'remainder') return false;
  return !(kind.isSigned && powerOfTwo(right) !== undefined) && reciprocalOf(right) === undefined;
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
