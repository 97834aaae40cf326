// The one error class of fastprobe and the table of its codes. docs/errors.md is made from this table.

/**
 * Every way in which fastprobe refuses or fails. A code never changes its meaning; the text is what the code stands for
 * in general, while an error's own message says what happened this time.
 */
export const errorCodes = {
  FASTPROBE_BAD_ARGUMENT: 'An argument has the wrong type or value.',
  FASTPROBE_ADDON_MISSING: 'The native addon is not built, or was built for another platform.',
  FASTPROBE_NO_SUCH_PROCESS: 'No process has this id.',
  FASTPROBE_NO_SUCH_THREAD: 'The target has no stopped thread with this id.',
  FASTPROBE_PERMISSION: 'The kernel does not let this user trace that process.',
  FASTPROBE_ALREADY_TRACED: 'Another tracer is attached to the process; there can be only one.',
  FASTPROBE_KERNEL_THREAD: 'The process is a thread of the kernel and runs no user code.',
  FASTPROBE_ZOMBIE: 'The process has ended and waits only for its parent to take note.',
  FASTPROBE_NOT_64_BIT: 'The process runs a 32-bit program; fastprobe works on x86-64 only.',
  FASTPROBE_OWN_PROCESS: 'The process is fastprobe itself or one of its ancestors, which would stop fastprobe as well.',
  FASTPROBE_TARGET_EXITED: 'The target ended while, or before, something was asked of it.',
  FASTPROBE_TARGET_EXECED: 'The target replaced its program while something was asked of it.',
  FASTPROBE_TARGET_UNRESPONSIVE: 'A thread of the target did not stop in time; all of it runs again.',
  FASTPROBE_NOT_ATTACHED: 'The target was detached before.',
  FASTPROBE_NOT_STOPPED: 'This needs a stopped target, and it runs.',
  FASTPROBE_MEMORY: "A part of the target's memory can't be read or written.",
  FASTPROBE_REMOTE_CALL: 'A system call run in the target failed.',
  FASTPROBE_REMOTE_CALL_BLOCKED: 'A system call run in the target blocked for too long and was interrupted.',
  FASTPROBE_SECCOMP: 'The target has a seccomp filter, and the kernel does not let us suspend it.',
  FASTPROBE_LAUNCH_FAILED: 'The program could not be started.',
  FASTPROBE_TRACER_LOST: 'The task that traces the target was killed.',
  FASTPROBE_SYSTEM: 'A system call of fastprobe itself failed.',
  FASTPROBE_DECODER_UNUSABLE:
    'The instruction decoder could not be loaded, or is not the build fastprobe was made for.',
  FASTPROBE_OUT_OF_REACH: 'Code at one address cannot refer to another address with the bits it has for it.',
  FASTPROBE_BINARY_UNREADABLE: 'The file of a program or library can not be read.',
  FASTPROBE_NOT_X86_64_ELF: 'The file is not an ELF program or shared library for x86-64.',
  FASTPROBE_BINARY_DAMAGED: 'A binary ends too early or contradicts itself.',
  FASTPROBE_ADDRESS_NOT_IN_FILE: 'The binary has nothing at this file address.',
  FASTPROBE_DEBUG_INFO_MISSING: 'The binary has no debug information for what was asked.',
  FASTPROBE_DEBUG_INFO_UNSUPPORTED: 'The debug information has a form that fastprobe does not read.',
  FASTPROBE_FILE_UNKNOWN: 'No source file of the binary has this name.',
  FASTPROBE_FILE_AMBIGUOUS: 'Several source files of the binary have this name.',
  FASTPROBE_LINE_WITHOUT_CODE: 'Neither this line nor any after it in the file has code.',
  FASTPROBE_FUNCTION_UNKNOWN: 'No function of the binary has this name.',
  FASTPROBE_VARIABLE_UNKNOWN: 'No variable of this name is visible there.',
  FASTPROBE_TYPE_UNKNOWN: 'No type of the binary has this name.',
  FASTPROBE_EXPRESSION_SYNTAX: 'An expression is not written as C has it.',
  FASTPROBE_EXPRESSION_TYPE: 'The types in an expression do not fit together.',
  FASTPROBE_EXPRESSION_UNSUPPORTED: 'An expression is good C, but uses something that fastprobe can not compile.',
  FASTPROBE_OPTIMISED_OUT: 'The variable has no value at this place: the compiler optimised it away.',
  FASTPROBE_TOO_MANY: 'A fixed limit of a session is used up.',
  FASTPROBE_NO_ROOM: 'No memory for trampolines is free near the code.',
  FASTPROBE_NOT_AN_INSTRUCTION: 'The address is not the start of an instruction.',
  FASTPROBE_SITE_REFUSED: 'No tactic can place a probe at this site, for the reasons given.',
  FASTPROBE_CODE_CHANGED: 'The code in memory is not what was planned for, or not what was put there.',
  FASTPROBE_LOCATION_UNKNOWN: 'The program has no such line, function or address.',
  FASTPROBE_LOCATION_SYNTAX: 'The text is not a location.',
  FASTPROBE_SIGNAL_BLOCKED: 'A thread blocks a signal without which a probe of this kind would end the target.',
  FASTPROBE_SESSION_CLOSED: 'The session was closed, or its target is gone.',
  FASTPROBE_TARGET_IN_USE: 'Another fastprobe that is still running has probes in the target.',
  FASTPROBE_MODULE_UNREADABLE: 'The file behind code of the target can no longer be read.',
  FASTPROBE_LEFT_BEHIND: 'Something of ours could not be taken out of the target.',
} as const;

export type ErrorCode = keyof typeof errorCodes;

/** What went wrong (`message`), a code to test for (`code`), and the next step to take (`hint`). */
export class FastprobeError extends Error {
  readonly code: ErrorCode;
  readonly hint: string;

  constructor(code: ErrorCode, message: string, options: { hint: string; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'FastprobeError';
    this.code = code;
    this.hint = options.hint;
  }
}

/** Checks what must hold whatever the input; stays on in release builds. A failure is a bug in fastprobe. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`fastprobe invariant broken: ${message} (this is a bug in fastprobe)`);
}
