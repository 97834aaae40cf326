// The door from the language to the program: what names mean at one address.

import type { Address } from '../address.js';
import type { Binary } from '../binary/binary.js';
import { strip } from '../binary/type-text.js';
import type { Type } from '../binary/types.js';
import type { Variable } from '../binary/variables.js';
import { FastprobeError } from '../errors.js';
import { headerTypes } from './c-types.js';
import type { TypeNames } from './parse.js';

/** What an expression may refer to. Unknown names are refused with the errors of src/binary, which suggest others. */
export interface Scope extends TypeNames {
  /** The file address of the instruction before which the expression is evaluated. */
  readonly address: Address;
  variable(name: string): Variable;
  type(name: string): Type;
}

/** The scope of an instruction. `frame` counts outwards through the functions inlined there. */
export function scopeAt(binary: Binary, address: Address, options: { readonly frame?: number } = {}): Scope {
  const variable = (name: string) => binary.variableAt(address, name, options);
  const type = (name: string) => binary.typeNamed(name, { near: address });
  // As in C, a variable hides a type of its name. `struct item` does not make `item` a type.
  const isType = (name: string) => {
    if (found(() => variable(name), 'FASTPROBE_VARIABLE_UNKNOWN')) return false;
    return Object.hasOwn(headerTypes, name) || found(() => type(name), 'FASTPROBE_TYPE_UNKNOWN');
  };
  return { address, variable, type, isType };
}

function found(look: () => unknown, unknown: FastprobeError['code']): boolean {
  try {
    look();
    return true;
  } catch (error) {
    if (error instanceof FastprobeError && error.code === unknown) return false;
    throw error;
  }
}

/** The enumerator of this name in an enumeration. */
export function enumeratorOf(type: Type, name: string): bigint | undefined {
  const inner = strip(type);
  if (inner.kind !== 'enum') return undefined;
  return inner.enumerators.find((each) => each.name === name)?.value;
}
