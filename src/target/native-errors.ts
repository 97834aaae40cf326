// Gives errors of the addon their hint, and makes them FastprobeErrors.

import { type ErrorCode, errorCodes, FastprobeError } from '../errors.js';

const hints: Partial<Record<ErrorCode, string>> = {
  FASTPROBE_TARGET_EXITED: "the target's exit event has its status; attach to another process or launch it again",
  FASTPROBE_TARGET_EXECED: 'addresses of the old program mean nothing now; look at the maps again and retry',
  FASTPROBE_TARGET_UNRESPONSIVE:
    'a thread waits inside the kernel (a disk or network file system, or a vfork whose child has not called exec); try again when it is done',
  FASTPROBE_NOT_ATTACHED: 'attach again with attach(pid)',
  FASTPROBE_NOT_STOPPED: 'call stop() first',
  FASTPROBE_NO_SUCH_THREAD: 'take a thread id from registers() while the target is stopped',
  FASTPROBE_REMOTE_CALL_BLOCKED: 'use calls that do not wait, or pass a longer timeoutMs',
  FASTPROBE_SECCOMP: 'only a privileged fastprobe (CAP_SYS_ADMIN) may suspend the filter; run it as root',
  FASTPROBE_LAUNCH_FAILED: 'check the path, that the file is executable, and the working folder',
  FASTPROBE_TRACER_LOST: 'the task named "fastprobe" was killed; the target runs on without it; attach again',
};

interface NativeFailure extends Error {
  code: string;
  errno?: number;
}

function isNativeFailure(error: unknown): error is NativeFailure {
  return error instanceof Error && 'code' in error && typeof error.code === 'string';
}

/** `error` as a FastprobeError, if it came from the addon; anything else as it is. */
export function withHint(error: unknown): unknown {
  if (error instanceof FastprobeError || !isNativeFailure(error) || !(error.code in errorCodes)) return error;
  const code = error.code as ErrorCode;
  return new FastprobeError(code, error.message, { hint: hints[code] ?? errorCodes[code], cause: error });
}

/** Awaits a call of the addon, its errors made FastprobeErrors. */
export async function native<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw withHint(error);
  }
}
