// What can happen in a target, as typed events.

import { constants } from 'node:os';
import { type Address, address } from '../address.js';
import type { NativeEvent } from './addon.js';

/** How a process ended: exactly one of the two is set. */
export interface Exit {
  exitCode: number | null;
  signal: string | null;
}

export interface TargetEvents {
  /** The target ended. The last event. */
  exit: [Exit];
  /** The target replaced its program; `formerTid` called exec and is the only thread now. */
  exec: [{ formerTid: number }];
  /** The target made a child process, which runs on untraced. */
  fork: [{ tid: number; child: number; how: 'fork' | 'vfork' | 'clone' }];
  thread: [{ tid: number; newTid: number }];
  'thread-exit': [{ tid: number }];
  /** A signal is being delivered to a thread; it is not held up. Only after `reportSignals(true)`. */
  signal: [SignalEvent];
}

export interface SignalEvent {
  tid: number;
  /** `'SIGUSR1'`; `'SIGRTMIN+3'` for real-time signals. */
  signal: string;
  number: number;
  /** si_code: 0 for kill(), -1 for sigqueue(), positive for what the kernel raised. */
  code: number;
  /** Who sent it, where someone did. */
  sender: number;
  /** The address of a fault, for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP. */
  address: Address;
  /** What sigqueue() sent along. */
  value: bigint;
}

/** The kernel's first real-time signal that glibc leaves to programs. */
const SIGRTMIN = 34;

/** `SIGTERM` for 15. */
export function signalName(number: number): string {
  if (number >= SIGRTMIN) return number === SIGRTMIN ? 'SIGRTMIN' : `SIGRTMIN+${number - SIGRTMIN}`;
  const found = Object.entries(constants.signals).find(
    ([name, value]) => value === number && name !== 'SIGIOT' && name !== 'SIGPOLL',
  );
  return found?.[0] ?? `SIG${number}`;
}

export function toExit(event: NativeEvent & { type: 'exit' }): Exit {
  return { exitCode: event.exitCode, signal: event.signal === null ? null : signalName(event.signal) };
}

export function toSignal(event: NativeEvent & { type: 'signal' }): SignalEvent {
  return {
    tid: event.tid,
    signal: signalName(event.signal),
    number: event.signal,
    code: event.code,
    sender: event.sender,
    address: address(event.address),
    value: event.value,
  };
}
