// Where a variable is at a site, from what DWARF says of it to a place that code can load from.

import { isGeneralRegister } from '../binary/registers.js';
import { typeText } from '../binary/type-text.js';
import type { Variable } from '../binary/variables.js';
import { type Register, registerNamed } from '../isa/registers.js';
import type { Complaints } from './complaint.js';
import { arithmetic, compare, complement, constant, convert, moved, negate, pointedTo } from './fold.js';
import type { Relation, Span } from './tree.js';
import { type ArithmeticOperation, int32, int64, type Kind, type Place, pointerKind, type Value } from './value.js';

/** A variable that is in no place, but whose bytes can be computed. */
export interface Computed {
  readonly in: 'value';
  readonly offset: number;
  read(offset: number, kind: Kind, span: Span): Value;
}

type Location = Variable['location'];
type AvailableRange = Extract<Location, { kind: 'optimised-out' }>['availableAt'][number];
type ExpressionOps = Extract<Location, { kind: 'expression' }>['ops'];

/** Finds the variable, or refuses with the reason. */
export function locate(variable: Variable, span: Span, complaints: Complaints): Place | Computed {
  const { location, name } = variable;
  const unsupported = (reason: string, hint: string) =>
    complaints.unsupported(span, `'${name}' can't be read here: ${reason}`, hint);
  switch (location.kind) {
    case 'register': {
      if (isGeneralRegister(location.register) && location.register !== 'rip') {
        return { in: 'register', register: numberOf(location.register), offset: 0 };
      }
      throw unsupported(`it is in ${location.register}`, 'floating-point and vector registers can’t be read yet');
    }
    case 'frame': {
      if (location.base === 'rip') throw unsupported('it is relative to rip', 'choose a place where it is in memory');
      const base = { from: 'frame', register: numberOf(location.base) } as const;
      return moved(
        { in: 'memory', base, index: undefined, offset: 0, isSafe: true },
        BigInt(location.offset),
        true,
        span,
      );
    }
    case 'address': {
      const base = { from: 'file', address: location.address } as const;
      return { in: 'memory', base, index: undefined, offset: 0, isSafe: true };
    }
    case 'constant':
      return {
        in: 'value',
        offset: 0,
        read: (offset, kind, at) => constant(location.value >> BigInt(offset * 8), kind, at),
      };
    case 'expression': {
      const value = evaluated(location.ops, span, (reason) => unsupported(reason, 'choose a line where it is simpler'));
      if (location.result === 'address') return pointedTo(value);
      return { in: 'value', offset: 0, read: (offset, kind, at) => partOf(value, offset, kind, at) };
    }
    case 'pieces':
      throw unsupported('it is in several parts', 'choose a line where it is in one place, or one of its members');
    case 'unsupported':
      throw unsupported(location.reason, 'choose a line where it is in memory or in a register');
    case 'optimised-out':
      throw complaints.optimisedOut(
        span,
        `'${name}' (${typeText(variable.type)}) is optimised out here`,
        whereElse(location.availableAt),
      );
    default:
      throw unsupported(otherPlace(location), 'choose another variable, or copy it to one in the program');
  }
}

/** Why a kind of place that src/binary may know, but code does not, can't be read. */
function otherPlace({ kind }: { readonly kind: string }): string {
  return kind === 'thread' ? 'it is thread-local' : `it is in a place of the kind '${kind}'`;
}

function numberOf(name: string): Register {
  const found = registerNamed(name);
  if (found === undefined) throw new RangeError(`no general register ${name}`);
  return found.register;
}

function whereElse(ranges: readonly AvailableRange[]): string {
  const lines = ranges.flatMap(({ firstLine, lastLine }) => {
    if (firstLine === undefined) return [];
    return [lastLine === undefined || lastLine === firstLine ? `${firstLine}` : `${firstLine}–${lastLine}`];
  });
  const distinct = [...new Set(lines)];
  if (distinct.length === 0) return 'it exists nowhere in the function: use another variable, or compile with -Og';
  return `it exists at line${distinct.length === 1 && !distinct[0]?.includes('–') ? '' : 's'} ${distinct.join(', ')}`;
}

function partOf(value: Value, offset: number, kind: Kind, span: Span): Value {
  const count = constant(BigInt(offset * 8), int32, span);
  return convert(arithmetic('shift-right', value, count, pointerKind, span), kind, span);
}

const operations: Readonly<Record<string, ArithmeticOperation>> = {
  and: 'and',
  or: 'or',
  xor: 'xor',
  plus: 'add',
  minus: 'subtract',
  multiply: 'multiply',
};

const shifts: Readonly<Record<string, { op: 'shift-left' | 'shift-right'; kind: Kind }>> = {
  'shift-left': { op: 'shift-left', kind: pointerKind },
  'shift-right': { op: 'shift-right', kind: pointerKind },
  'shift-right-signed': { op: 'shift-right', kind: int64 },
};

const relations: Readonly<Record<string, Relation>> = {
  equal: '==',
  unequal: '!=',
  less: '<',
  'at-most': '<=',
  greater: '>',
  'at-least': '>=',
};

const loadKinds: Readonly<Record<number, Kind>> = {
  1: { width: 8, isSigned: false },
  2: { width: 16, isSigned: false },
  4: { width: 32, isSigned: false },
  8: pointerKind,
};

/** Runs the operations on values instead of numbers. Operands are used once each, so there is no sharing to lose. */
function evaluated(ops: ExpressionOps, span: Span, refuse: (reason: string) => Error): Value {
  const stack: Value[] = [];
  const pop = (): Value => {
    const top = stack.pop();
    if (top === undefined) throw refuse('its DWARF expression takes more than it has');
    return top;
  };
  for (const step of ops) {
    switch (step.op) {
      case 'push':
        stack.push(constant(step.value, pointerKind, span));
        continue;
      case 'push-address':
        stack.push({
          op: 'address',
          place: {
            in: 'memory',
            base: { from: 'file', address: step.address },
            index: undefined,
            offset: 0,
            isSafe: false,
          },
          kind: pointerKind,
          span,
        });
        continue;
      case 'register': {
        if (step.register === 'rip') throw refuse('it is relative to rip');
        const place = { in: 'register', register: numberOf(step.register), offset: 0 } as const;
        const offset = constant(BigInt(step.offset), pointerKind, span);
        stack.push(arithmetic('add', { op: 'load', place, kind: pointerKind, span }, offset, pointerKind, span));
        continue;
      }
      case 'load': {
        const kind = loadKinds[step.size];
        if (kind === undefined) throw refuse(`its DWARF expression loads ${step.size} bytes`);
        stack.push(convert({ op: 'load', place: pointedTo(pop()), kind, span }, pointerKind, span));
        continue;
      }
      case 'negate':
        stack.push(negate(pop(), span));
        continue;
      case 'not':
        stack.push(complement(pop(), span));
        continue;
      case 'drop':
        pop();
        continue;
      case 'swap': {
        const [upper, lower] = [pop(), pop()];
        stack.push(upper, lower);
        continue;
      }
    }
    const operation = operations[step.op];
    const shift = shifts[step.op];
    const relation = relations[step.op];
    if (operation !== undefined) {
      const right = pop();
      stack.push(arithmetic(operation, pop(), right, pointerKind, span));
    } else if (shift !== undefined) {
      const right = convert(pop(), int32, span);
      if (right.op !== 'constant' || right.value < 0n || right.value > 63n) throw refuse('its DWARF expression shifts');
      stack.push(convert(arithmetic(shift.op, convert(pop(), shift.kind), right, shift.kind, span), pointerKind, span));
    } else if (relation !== undefined) {
      const right = convert(pop(), int64, span);
      stack.push(convert(compare(relation, convert(pop(), int64, span), right, span), pointerKind, span));
    } else throw refuse(`its DWARF expression needs '${step.op}'`);
  }
  return pop();
}
