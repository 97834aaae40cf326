// Why a process can't be attached to, said before trying or after the kernel said no.

import { FastprobeError } from '../errors.js';
import { ancestry, elfClass, listThreads, processStatus, yamaScope } from './proc.js';

/** What decides whether the kernel lets us trace a process. */
export interface Permission {
  ourUid: number;
  targetUid: number;
  yamaScope: number | undefined;
}

/** Says in words, with the next step, why the kernel refused. */
export function explainDenial(
  pid: number,
  { ourUid, targetUid, yamaScope }: Permission,
): { why: string; hint: string } {
  if (yamaScope === 3) {
    return {
      why: `ptrace is switched off on this system (kernel.yama.ptrace_scope is 3)`,
      hint: 'it can be switched on again only by restarting with another setting',
    };
  }
  if (ourUid !== 0 && targetUid !== ourUid) {
    return {
      why: `process ${pid} belongs to user ${targetUid}, and we are user ${ourUid}`,
      hint: 'run fastprobe as that user or as root',
    };
  }
  if (ourUid !== 0 && yamaScope !== undefined && yamaScope > 0) {
    const why = `the system lets ${yamaScope === 1 ? 'only a parent' : 'only root'} trace a process (kernel.yama.ptrace_scope is ${yamaScope})`;
    const start = yamaScope === 1 ? 'start the program with launch(), ' : '';
    return { why, hint: `${start}run fastprobe as root, or set kernel.yama.ptrace_scope to 0 with sysctl` };
  }
  return {
    why: `process ${pid} is protected (not dumpable, with more privileges than ours, or in another user namespace)`,
    hint: 'run fastprobe as root, with CAP_SYS_PTRACE',
  };
}

/** Throws what can be known before touching the process. */
export function refuseUnlessAttachable(pid: number): void {
  const status = processStatus(pid);
  if (status === undefined) {
    throw new FastprobeError('FASTPROBE_NO_SUCH_PROCESS', `no process has the id ${pid}`, {
      hint: 'look with `ps` or `pgrep`; in a container, process ids differ inside and outside',
    });
  }
  const name = `process ${pid} (${status.name})`;
  if (status.tgid !== pid) {
    throw new FastprobeError('FASTPROBE_NO_SUCH_PROCESS', `${pid} is a thread of process ${status.tgid}`, {
      hint: `attach to ${status.tgid}: fastprobe works on whole processes`,
    });
  }
  if (status.isKernelThread) {
    throw new FastprobeError('FASTPROBE_KERNEL_THREAD', `${name} is a kernel thread`, {
      hint: 'use perf or bpftrace for the kernel',
    });
  }
  const threadsLeft = status.state === 'Z' && hasLivingThread(pid);
  if (status.state === 'Z' && !threadsLeft) {
    throw new FastprobeError('FASTPROBE_ZOMBIE', `${name} has ended`, {
      hint: `its parent, process ${status.parent}, has not waited for it yet`,
    });
  }
  if (ancestry(process.pid).includes(pid)) {
    const who = pid === process.pid ? 'this very process' : 'an ancestor of this process';
    throw new FastprobeError('FASTPROBE_OWN_PROCESS', `${name} is ${who}`, {
      hint: 'run fastprobe from a process that does not depend on the target',
    });
  }
  if (status.tracer !== 0) throw alreadyTraced(pid, status.tracer);
  if (elfClass(pid) === 1) {
    throw new FastprobeError('FASTPROBE_NOT_64_BIT', `${name} runs a 32-bit program`, {
      hint: 'build the program for x86-64',
    });
  }
}

/** What the kernel's refusal to attach means. */
export function explainRefusal(pid: number, cause: unknown): FastprobeError {
  const status = processStatus(pid);
  if (status === undefined) {
    return new FastprobeError('FASTPROBE_NO_SUCH_PROCESS', `process ${pid} ended before we could attach`, {
      hint: 'start it again, or use launch()',
      cause,
    });
  }
  if (status.tracer !== 0) return alreadyTraced(pid, status.tracer, cause);
  const ourUid = process.geteuid?.() ?? 0;
  const { why, hint } = explainDenial(pid, { ourUid, targetUid: status.uid, yamaScope: yamaScope() });
  return new FastprobeError('FASTPROBE_PERMISSION', `not allowed to attach: ${why}`, { hint, cause });
}

function alreadyTraced(pid: number, tracer: number, cause?: unknown): FastprobeError {
  const tracerName = processStatus(tracer)?.name ?? 'unknown';
  return new FastprobeError(
    'FASTPROBE_ALREADY_TRACED',
    `process ${pid} is already traced by process ${tracer} (${tracerName})`,
    {
      hint: `detach ${tracerName} first: the kernel allows one tracer per process`,
      cause,
    },
  );
}

/** A process whose main thread has ended shows as a zombie while others still run. */
function hasLivingThread(pid: number): boolean {
  return listThreads(pid).some((thread) => thread.tid !== pid && !'ZX'.includes(thread.state));
}
