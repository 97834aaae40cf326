// From a type as written to the program's type of that name.

import type { Type } from '../binary/types.js';
import { FastprobeError } from '../errors.js';
import { arrayOf, basicTypes, headerTypes, isBasicName, pointerTo, voidType } from './c-types.js';
import type { Complaints } from './complaint.js';
import type { Scope } from './scope.js';
import type { Span, TypeName } from './tree.js';

/** Looks up types. The program's own come first; the basic ones exist even if the program never uses them. */
export class TypeReader {
  private readonly complaints: Complaints;
  private readonly scope: Scope;

  constructor(complaints: Complaints, scope: Scope) {
    this.complaints = complaints;
    this.scope = scope;
  }

  read({ base, derivations }: TypeName): Type {
    let type = this.named(base);
    for (const each of derivations) type = each === 'pointer' ? pointerTo(type) : arrayOf(type, each);
    return type;
  }

  /** For `sizeof(name)`: the type, if the name is no variable. */
  namedWhenNoVariable(name: string, span: Span): Type | undefined {
    try {
      this.scope.variable(name);
      return undefined;
    } catch (error) {
      if (!isCode(error, 'FASTPROBE_VARIABLE_UNKNOWN')) throw error;
    }
    try {
      return this.named(name);
    } catch (error) {
      if (!isCode(error, 'FASTPROBE_TYPE_UNKNOWN')) throw error;
      const message = `'${name}' is neither a variable here nor a type`;
      throw this.complaints.type(span, message, error instanceof FastprobeError ? error.hint : 'check the spelling');
    }
  }

  private named(name: string): Type {
    if (name === 'void') return voidType;
    // Whether plain char is signed is the compiler's choice, which the program's own char tells.
    if (isBasicName(name) && name !== 'char') return basicTypes[name];
    try {
      return this.scope.type(name);
    } catch (error) {
      const known = name === 'char' ? basicTypes.char : headerTypes[name];
      if (known === undefined || !isCode(error, 'FASTPROBE_TYPE_UNKNOWN')) throw error;
      return known;
    }
  }
}

function isCode(error: unknown, code: FastprobeError['code']): boolean {
  return error instanceof FastprobeError && error.code === code;
}
