// What /proc says about a process.

import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs';

export interface ProcessStatus {
  name: string;
  /** R, S, D, T, t, Z, X or I. */
  state: string;
  /** The process this id belongs to: another number when the id is a thread's. */
  tgid: number;
  parent: number;
  tracer: number;
  /** Effective user. */
  uid: number;
  isKernelThread: boolean;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined; // Gone, or not for us to see: to the caller both mean "not known".
  }
}

/** A bit of the flags in /proc/pid/stat (linux/sched.h). */
const PF_KTHREAD = 0x0020_0000;

/** Undefined when there is no such process. */
export function processStatus(pid: number): ProcessStatus | undefined {
  const status = readText(`/proc/${pid}/status`);
  const stat = readText(`/proc/${pid}/stat`);
  if (status === undefined || stat === undefined) return undefined;
  const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1] ?? '';
  // After the name, which is in parentheses and may itself contain some: state, ppid, …, and the flags as the seventh.
  const flags = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[6]);
  return {
    name: field('Name'),
    state: field('State').charAt(0),
    tgid: Number(field('Tgid')),
    parent: Number(field('PPid')),
    tracer: Number(field('TracerPid')),
    uid: Number(field('Uid').split('\t')[1]),
    isKernelThread: (flags & PF_KTHREAD) !== 0,
  };
}

/** The process and its parents, up to the first. */
export function ancestry(pid: number): number[] {
  const found: number[] = [];
  for (let next = pid; next > 0 && !found.includes(next); next = processStatus(next)?.parent ?? 0) found.push(next);
  return found;
}

/** The class byte of the program's ELF header: 1 for 32-bit, 2 for 64-bit; undefined when it can't be read. */
export function elfClass(pid: number): number | undefined {
  const header = Buffer.alloc(5);
  try {
    const file = openSync(`/proc/${pid}/exe`, 'r');
    try {
      readSync(file, header);
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
  return header[4];
}

/** 0 to 3 with Yama in the kernel, undefined without. */
export function yamaScope(): number | undefined {
  const text = readText('/proc/sys/kernel/yama/ptrace_scope');
  return text === undefined ? undefined : Number(text);
}

/** A value of the auxiliary vector that the kernel gave the program, by its AT_ number. */
export function auxiliaryValue(pid: number, type: number): bigint | undefined {
  const words = readFileSync(`/proc/${pid}/auxv`);
  for (let offset = 0; offset + 16 <= words.length; offset += 16) {
    if (words.readBigUInt64LE(offset) === BigInt(type)) return words.readBigUInt64LE(offset + 8);
  }
  return undefined;
}

/** When a process started, in clock ticks since boot: with the id it names a process for good. Undefined when it is gone. */
export function startTime(pid: number): bigint | undefined {
  const stat = readText(`/proc/${pid}/stat`);
  const field = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  return field === undefined ? undefined : BigInt(field);
}

/** Signals of one thread as sets: bit n - 1 stands for signal n. */
export interface SignalSets {
  tid: number;
  blocked: bigint;
  /** Sent to this very thread, or raised by it, and not delivered yet. */
  pending: bigint;
}

export function signalSets(pid: number): SignalSets[] {
  return listThreads(pid).flatMap(({ tid }) => {
    const status = readText(`/proc/${pid}/task/${tid}/status`);
    if (status === undefined) return [];
    const set = (name: string) => BigInt(`0x${new RegExp(`^${name}:\\s*(\\w+)$`, 'm').exec(status)?.[1] ?? '0'}`);
    return [{ tid, blocked: set('SigBlk'), pending: set('SigPnd') }];
  });
}

/** Whether a hardware shadow stack is active in some thread. */
export function hasShadowStack(pid: number): boolean {
  return listThreads(pid).some(({ tid }) =>
    /^x86_Thread_features:.*\bshstk\b/m.test(readText(`/proc/${pid}/task/${tid}/status`) ?? ''),
  );
}

export interface ThreadInfo {
  tid: number;
  name: string;
  /** R running, S sleeping, D in the kernel, T stopped by a signal, t stopped by a tracer, Z ended. */
  state: string;
}

/** The threads of a process as they are now; empty when it is gone. */
export function listThreads(pid: number): ThreadInfo[] {
  let tids: string[];
  try {
    tids = readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
  return tids.flatMap((tid) => {
    const stat = readText(`/proc/${pid}/task/${tid}/stat`);
    if (stat === undefined) return [];
    const nameEnd = stat.lastIndexOf(')');
    return [{ tid: Number(tid), name: stat.slice(stat.indexOf('(') + 1, nameEnd), state: stat.charAt(nameEnd + 2) }];
  });
}

/** Where a link of /proc/pid leads (exe, cwd, …); undefined when it can't be read. */
export function processLink(pid: number, name: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/${name}`);
  } catch {
    return undefined;
  }
}
