// Attaching to a running process.

import { FastprobeError } from '../errors.js';
import { native } from './native-errors.js';
import { explainRefusal, refuseUnlessAttachable } from './refusal.js';
import { openNativeTarget, Target } from './target.js';

/**
 * Attaches to process `pid` with all its threads. It runs on; stop it with `stop()`.
 *
 * @example
 * await using target = await attach(4242);
 * await target.stop();
 * for (const [tid, registers] of await target.registers()) console.log(tid, registers.rip);
 */
export async function attach(pid: number, options: { signal?: AbortSignal } = {}): Promise<Target> {
  if (!Number.isInteger(pid) || pid <= 0) {
    throw new FastprobeError('FASTPROBE_BAD_ARGUMENT', `not a process id: ${String(pid)}`, {
      hint: 'pass a positive whole number',
    });
  }
  options.signal?.throwIfAborted();
  refuseUnlessAttachable(pid);
  const { native: nativeTarget, events } = openNativeTarget();
  try {
    await native(nativeTarget.attach(pid));
  } catch (error) {
    if (error instanceof FastprobeError && ['FASTPROBE_PERMISSION', 'FASTPROBE_NO_SUCH_PROCESS'].includes(error.code)) {
      throw explainRefusal(pid, error);
    }
    throw error;
  }
  const target = new Target(nativeTarget, pid, events);
  if (options.signal?.aborted) {
    await target.detach();
    options.signal.throwIfAborted();
  }
  return target;
}
