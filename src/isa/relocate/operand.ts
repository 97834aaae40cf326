// The operand of a call or jump through a register or memory, read from its ModRM, SIB and displacement.

import type { BasedMemory } from '../emit.js';
import { type Register, rsp } from '../registers.js';

export type Operand =
  | { readonly kind: 'register'; readonly register: Register }
  | { readonly kind: 'memory'; readonly memory: BasedMemory };

/** The register or memory operand of an `ff` opcode, from its ModRM, SIB and displacement; manual volume 2, section 2.1.5. */
export function operandOf(bytes: Uint8Array, opcodeOffset: number, rex: number): Operand {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const modrm = view.getUint8(opcodeOffset + 1);
  const mod = modrm >> 6;
  const rm = modrm & 7;
  const extendBase = (rex & 1) << 3;
  if (mod === 3) return { kind: 'register', register: (rm | extendBase) as Register };
  let at = opcodeOffset + 2;
  let base: Register | undefined = (rm | extendBase) as Register;
  let index: Register | undefined;
  let scale: 1 | 2 | 4 | 8 = 1;
  if (rm === 4) {
    const sib = view.getUint8(at++);
    base = (sib & 7) === 5 && mod === 0 ? undefined : (((sib & 7) | extendBase) as Register);
    const number = ((sib >> 3) & 7) | ((rex & 2) << 2);
    if (number !== rsp) index = number as Register;
    scale = (1 << (sib >> 6)) as 1 | 2 | 4 | 8;
  }
  const wide = mod === 2 || base === undefined || (mod === 0 && rm === 5);
  const disp = wide ? view.getInt32(at, true) : mod === 1 ? view.getInt8(at) : 0;
  return { kind: 'memory', memory: { base, index, scale, disp, segment: undefined } };
}
