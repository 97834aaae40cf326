// An address in a target, as a type of its own so that it can't be mixed with a number or a host pointer.

declare const addressBrand: unique symbol;

/** An address in the target's address space. Make one with {@link address}. */
export type Address = bigint & { readonly [addressBrand]: true };

/** The first address past the canonical user half on x86-64 (with 5-level paging; less is in use without it). */
const userSpaceEnd = 1n << 56n;

/**
 * Makes an address from a bigint, a safe integer or text such as `'0x401234'`.
 * Kernel addresses (vsyscall) are accepted up to 64 bits; anything outside throws a RangeError.
 */
export function address(value: bigint | number | string): Address {
  const raw = BigInt(value);
  if (raw < 0n || raw >= 1n << 64n) throw new RangeError(`not a 64-bit address: ${value}`);
  return raw as Address;
}

/** `base` moved by `offset` bytes, which may be negative. Wraps at 64 bits as the processor does. */
export function offsetBy(base: Address, offset: bigint | number): Address {
  return BigInt.asUintN(64, base + BigInt(offset)) as Address;
}

/** True for an address that code in user space can have. */
export function isUserAddress(value: Address): boolean {
  return value < userSpaceEnd;
}

/** `0x7f12…`, as people write addresses. */
export function formatAddress(value: Address): string {
  return `0x${value.toString(16)}`;
}
