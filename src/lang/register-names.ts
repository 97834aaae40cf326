// `$rax`, `$edi`, `$sp`: the target's registers in expressions.

import { type Register, rbp, registerNamed, rsp, type Width } from '../isa/registers.js';
import { basicTypes } from './c-types.js';
import type { Item, Items } from './items.js';
import type { Scope } from './scope.js';
import type { Span } from './tree.js';
import { pointerKind } from './value.js';

const aliases: Readonly<Record<string, string>> = { sp: 'rsp', pc: 'rip' };
const highBytes: Readonly<Record<string, Register>> = { ah: 0, ch: 1, dh: 2, bh: 3 };
/** As gdb has it: registers are signed; those that are addresses by nature are not. */
const signedTypes = {
  8: basicTypes['signed char'],
  16: basicTypes['short int'],
  32: basicTypes.int,
  64: basicTypes['long int'],
} as const satisfies Record<Width, unknown>;
const addressType = basicTypes['long unsigned int'];

export function registerItem(name: string, span: Span, scope: Scope, items: Items): Item {
  // $sp means the 64-bit register, as in gdb, though x86 has a 16-bit sp.
  const plain = aliases[name] ?? name;
  if (plain === 'rip') {
    const base = { from: 'file', address: scope.address } as const;
    const place = { in: 'memory', base, index: undefined, offset: 0, isSafe: true } as const;
    return { type: addressType, span, value: () => ({ op: 'address', place, kind: pointerKind, span }) };
  }
  const high = highBytes[plain];
  if (high !== undefined) {
    return items.at(signedTypes[8], span, () => ({ in: 'register', register: high, offset: 1 }));
  }
  const found = registerNamed(plain);
  if (found === undefined) throw unknown(plain, span, items);
  const { register, width } = found;
  const isAddress = width === 64 && (register === rsp || register === rbp);
  return items.at(isAddress ? addressType : signedTypes[width], span, () => ({ in: 'register', register, offset: 0 }));
}

function unknown(name: string, span: Span, items: Items): Error {
  if (/^arg\d+$/.test(name)) {
    const hint = 'at the first instruction of a function the arguments are in $rdi, $rsi, $rdx, $rcx, $r8, $r9';
    return items.complaints.unsupported(span, `$${name} is not known yet`, hint);
  }
  if (/^([xyz]mm\d+|st\d?|mm\d|eflags|[cdefgs]s|k\d)$/.test(name)) {
    const hint = 'the general registers can be used: $rax, $edi, $sp';
    return items.complaints.unsupported(span, `$${name} can't be read in expressions yet`, hint);
  }
  return items.complaints.type(
    span,
    `there is no register $${name}`,
    'registers are $rax, $eax, $ax, $al, … $r15, $sp, $pc',
  );
}
