// Quotients and remainders: by shifts, by multiplication with a reciprocal, and only then by division.

import { invariant } from '../../errors.js';
import { rax, rdx } from '../../isa/registers.js';
import { powerOfTwo, type Reciprocal, reciprocalOf } from '../divisors.js';
import { convert } from '../fold.js';
import { type Arithmetic, int64, pointerKind } from '../value.js';
import { Branches } from './branches.js';
import type { Held } from './operands.js';

/** The part of the compiler that divides. */
export abstract class Division extends Branches {
  protected divide(value: Arithmetic): Held {
    if (value.kind.isSigned && powerOfTwo(value.right) !== undefined) return this.byPower(value);
    const reciprocal = reciprocalOf(value.right);
    return reciprocal === undefined ? this.byDividing(value) : this.byMultiplying(value, reciprocal);
  }

  /** By idiv or div, which have their registers fixed. What can't be divided goes to onFault before the processor sees it. */
  private byDividing({ op, left, right, kind }: Arithmetic): Held {
    const { code, machine } = this;
    const width = kind.width === 64 ? 64 : 32;
    const [a, b] = this.inBoth(left, right, (each) => this.evaluate(each));
    // Constant divisors are neither 0 nor -1.
    const isKnown = right.op === 'constant';
    if (!isKnown) {
      code.test(b.register, b.register, width);
      this.jumpIf('e', machine.onFault);
    }
    if (kind.isSigned && !isKnown) {
      // The smallest number divided by -1 is its own negation, which overflows.
      const fine = this.innerLabel('fine');
      code.aluImmediate('cmp', b.register, -1, width);
      this.jumpIf('ne', fine);
      code.mov(rax, a.register, width);
      code.neg(rax, width);
      this.jumpIf('o', machine.onFault);
      code.bind(fine);
    }
    code.mov(rax, a.register, width);
    if (!kind.isSigned) code.zero(rdx);
    else if (width === 64) code.cqo();
    else code.cdq();
    if (kind.isSigned) code.idiv(b.register, width);
    else code.div(b.register, width);
    this.release(a, b);
    const register = this.pool.take();
    code.mov(register, op === 'divide' ? rax : rdx, width);
    return this.owned(register, 'zero');
  }

  /** Signed, by a power of two: a negative number is first moved up by one less than the divisor, so that it rounds to zero. */
  private byPower({ op, left, right, kind }: Arithmetic): Held {
    const { code } = this;
    const width = kind.width === 64 ? 64 : 32;
    const exponent = powerOfTwo(right) ?? 0;
    const { register } = this.own(left);
    const bias = this.pool.take();
    code.mov(bias, register, width);
    if (exponent > 1) code.shift('sar', bias, width - 1, width);
    code.shift('shr', bias, width - exponent, width);
    code.alu('add', register, bias, width);
    if (op === 'divide') code.shift('sar', register, exponent, width);
    else {
      code.aluImmediate('and', register, 2 ** exponent - 1, width);
      code.alu('sub', register, bias, width);
    }
    this.pool.give(bias);
    return this.owned(register, 'zero');
  }

  /** 32 bits by a constant: the number as 64 bits, times the reciprocal. */
  private byMultiplying({ op, left, right, kind }: Arithmetic, { factor, shift }: Reciprocal): Held {
    const { code } = this;
    invariant(right.op === 'constant', 'the reciprocal of a variable');
    const { register } = this.own(convert(left, kind.isSigned ? int64 : pointerKind));
    const quotient = this.pool.take();
    code.movImmediate(quotient, factor);
    code.imul(quotient, register, 64);
    code.shift(kind.isSigned ? 'sar' : 'shr', quotient, shift, 64);
    if (op === 'divide') {
      if (kind.isSigned) {
        code.shift('sar', register, 63, 64);
        code.alu('sub', quotient, register, 32);
      }
      this.pool.give(register);
      return this.owned(quotient, kind.isSigned ? 'zero' : 'unknown');
    }
    if (kind.isSigned) {
      const sign = this.pool.take();
      code.mov(sign, register, 32);
      code.shift('sar', sign, 31, 32);
      code.alu('sub', quotient, sign, 32);
      this.pool.give(sign);
    }
    code.imulImmediate(quotient, quotient, Number(BigInt.asIntN(32, right.value)), 32);
    code.alu('sub', register, quotient, 32);
    this.pool.give(quotient);
    return this.owned(register, 'zero');
  }
}
