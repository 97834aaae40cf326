// Whether threads may still come back to code of ours.

import { type Address, address } from '../address.js';
import type { Registers } from '../target/registers.js';
import type { Target } from '../target/target.js';
import type { Span } from './space.js';

/** How much of a stack is searched. */
const searchLimit = 1 << 20;

/** From each thread's stack pointer up to the end of its stack. */
function stacksOf(target: Target, threads: ReadonlyMap<number, Registers>) {
  const maps = target.maps();
  return [...threads.values()].flatMap(({ rsp }) => {
    // Below the stack pointer there may be a frame in the red zone's stead only while the kernel builds it.
    const from = address(rsp - (rsp % 8n));
    const mapping = maps.find(({ start, end }) => start <= from && from < end);
    if (mapping === undefined) return [];
    return [{ address: from, length: Math.min(Number(mapping.end - from), searchLimit) }];
  });
}

/**
 * The saved instruction pointers of what is without doubt a signal frame: in the kernel's layout (struct sigcontext) the
 * flags follow the pointer, and then the selectors of 64-bit user code.
 */
function signalFrames(bytes: Uint8Array): Address[] {
  const found: Address[] = [];
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  for (let i = 0; i + 6 <= words.length; i += 2) {
    const isUserCode = ((words[i + 4] ?? 0) & 0xffff) === 0x33;
    const flags = words[i + 2] ?? 0;
    const isFlags = (words[i + 3] ?? 0) === 0 && (flags & 2) !== 0 && flags < 1 << 22;
    if (isUserCode && isFlags) found.push(wordAt(words, i));
  }
  return found;
}

function wordAt(halves: Uint32Array, index: number): Address {
  return address((BigInt(halves[index + 1] ?? 0) << 32n) | BigInt(halves[index] ?? 0));
}

/**
 * True when a thread may still come back to code of ours: it stands there, or a signal frame on its stack does, or a function
 * that `callers` (our code which calls the target's) has called has not returned.
 */
export async function isInUse(
  target: Target,
  threads: ReadonlyMap<number, Registers>,
  code: readonly Span[],
  callers: Span | undefined,
): Promise<boolean> {
  const isOurs = (value: bigint) => code.some(({ low, high }) => value >= low && value < high);
  if ([...threads.values()].some(({ rip }) => isOurs(rip))) return true;
  const stacks = await target.readMany(stacksOf(target, threads));
  return stacks.some(
    (bytes) => signalFrames(bytes).some(isOurs) || (callers !== undefined && mentions(bytes, callers)),
  );
}

/** True when some word of a stack is an address in the span. */
function mentions(bytes: Uint8Array, { low, high }: Span): boolean {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  const highHalf = Number(low >> 32n);
  for (let i = 0; i + 2 <= words.length; i += 2) {
    if (words[i + 1] !== highHalf) continue;
    const word = wordAt(words, i);
    if (word >= low && word < high) return true;
  }
  return false;
}
