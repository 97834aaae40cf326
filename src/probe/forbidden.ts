// Code that must stay as it is, byte by byte, although jumps could be placed there.

import { type Address, address, offsetBy } from '../address.js';
import { restorerCode } from '../patch/runtime.js';
import type { Span } from '../patch/space.js';
import type { Target } from '../target/target.js';
import type { Module } from './modules.js';

/** struct rseq_cs: version and flags, then the start, the length and the abort handler, 8 bytes each. */
const sequenceSize = 32;

/** The restartable sequences of a module, where they are in the target. */
async function restartableSequences(target: Target, module: Module): Promise<Span[]> {
  const section = module.binary.sectionNamed('__rseq_cs');
  if (section === undefined) return [];
  // From memory: in the file the addresses may not be filled in yet.
  const bytes = await target.read(module.toTarget(section.address), section.size);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: Math.floor(bytes.length / sequenceSize) }, (_, index) => {
    const low = address(view.getBigUint64(index * sequenceSize + 8, true));
    return { low, high: offsetBy(low, view.getBigUint64(index * sequenceSize + 16, true)) };
  });
}

/** Answers why a range of a module's code must not be changed, or undefined. */
export async function forbiddenCode(target: Target, module: Module, around: Address) {
  const sequences = await restartableSequences(target, module);
  const from = offsetBy(around, -restorerCode.length);
  const [nearby = new Uint8Array()] = await target.readMany([{ address: from, length: 64 }]);
  const found = Buffer.from(nearby.buffer, nearby.byteOffset, nearby.length).indexOf(restorerCode);
  const stub =
    found < 0 ? undefined : { low: offsetBy(from, found), high: offsetBy(from, found + restorerCode.length) };
  return (low: bigint, high: bigint): string | undefined => {
    const overlaps = (span: Span) => low < span.high && span.low < high;
    if (stub !== undefined && overlaps(stub))
      return 'unwinders know the return from a signal handler by these very bytes';
    if (sequences.some(overlaps)) return 'it is in a restartable sequence (rseq), which a jump out of it would break';
    return undefined;
  };
}
