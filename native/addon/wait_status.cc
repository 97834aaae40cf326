// What wait(2) tells of a traced process: stops, signals, new threads, execs and ends, and what is done about each.

#include <cerrno>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "error.h"
#include "restart_codes.h"
#include "traced_process.h"

namespace fastprobe {

namespace {

/// System calls that answer EINTR when a ptrace stop wakes them, although no handler ran (signal(7), last section; sockets
/// with a timeout). None of them has done anything when it answers so, so that starting it again is invisible.
bool failsWhenWoken(long nr) {
  switch (nr) {
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_io_uring_enter:
      return true;
    default:
      return false;
  }
}

}  // namespace

void TracedProcess::reap() {
  int status = 0;
  // __WNOTHREAD: tracees of this task only.
  while (const pid_t tid = waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG)) {
    if (tid < 0) {
      // ECHILD: no tracee is left. A leader exits last and tells; without it the process went away under us.
      return;
    }
    onStatus(tid, status);
  }
}

void TracedProcess::onStatus(pid_t tid, int status) {
  if (WIFSTOPPED(status)) {
    onStop(tid, status);
    return;
  }
  threads_.erase(tid);
  if (tid != pid_ && attached_) emit_(Event{.kind = Event::Kind::ThreadExit, .tid = tid, .status = status});
  // The kernel reports a leader's end only when all other threads are gone. Of a leader that had ended before we came
  // it reports nothing, but then the last thread has the same status.
  const auto leader = threads_.find(pid_);
  const bool lastOfUs = threads_.size() == 1 && leader != threads_.end() && !leader->second.seized;
  if (tid == pid_ || lastOfUs) onProcessEnd(status);
}

void TracedProcess::onProcessEnd(int status) {
  exitStatus_ = status;
  threads_.clear();
  finished_ = true;
  emit_(Event{.kind = Event::Kind::Exit, .tid = pid_, .status = status});
}

void TracedProcess::onStop(pid_t tid, int status) {
  const int signal = WSTOPSIG(status);
  const int event = status >> 16;
  auto found = threads_.find(tid);
  if (found == threads_.end()) {
    if (!attached_ || !isThreadOfOurs(tid)) {
      // A forked child: it carries on without us.
      detachThread(tid);
      return;
    }
    announcedByStop_.insert(tid);
    found = threads_.emplace(tid, Thread{}).first;
  }
  Thread& thread = found->second;
  switch (event) {
    case PTRACE_EVENT_STOP:
      thread.stopped = true;
      thread.groupStopped = signal != SIGTRAP;
      hideInterruption(tid);
      if (!wantStopped_) resumeThread(tid, thread);
      return;
    case PTRACE_EVENT_CLONE:
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
      onNewTask(tid, event);
      passOn(tid, 0);
      return;
    case PTRACE_EVENT_EXEC: {
      unsigned long former = 0;
      ptrace(PTRACE_GETEVENTMSG, tid, nullptr, &former);
      onExec(static_cast<pid_t>(former));
      passOn(tid, 0);
      return;
    }
    default:
      onSignal(tid, signal);
  }
}

/// Lets a thread go on from a stop that is not the one we want it in; with a stop asked for, it stops again at once.
void TracedProcess::passOn(pid_t tid, int signal) {
  if (wantStopped_) ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  ptrace(PTRACE_CONT, tid, nullptr, static_cast<long>(signal));
}

void TracedProcess::onNewTask(pid_t tid, int event) {
  unsigned long message = 0;
  if (ptrace(PTRACE_GETEVENTMSG, tid, nullptr, &message) != 0) return;
  const pid_t fresh = static_cast<pid_t>(message);
  // One that we have met already may have ended since, so that only our own note tells what it was.
  const bool met = announcedByStop_.erase(fresh) != 0;
  if (met || (event == PTRACE_EVENT_CLONE && isThreadOfOurs(fresh))) {
    if (!met) threads_.emplace(fresh, Thread{});
    emit_(Event{.kind = Event::Kind::Thread, .tid = tid, .other = fresh});
    return;
  }
  const char* how = event == PTRACE_EVENT_FORK ? "fork" : event == PTRACE_EVENT_VFORK ? "vfork" : "clone";
  emit_(Event{.kind = Event::Kind::Fork, .tid = tid, .other = fresh, .how = how});
}

/// Whoever called exec is now the leader and alone; its siblings went without a word.
void TracedProcess::onExec(pid_t formerTid) {
  threads_.clear();
  announcedByStop_.clear();
  threads_.emplace(pid_, Thread{});
  execs_ += 1;
  openMemory();
  emit_(Event{.kind = Event::Kind::Exec, .tid = pid_, .other = formerTid});
}

void TracedProcess::onSignal(pid_t tid, int signal) {
  siginfo_t info{};
  const bool known = ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info) == 0;
  if (breakpoint_ && signal == SIGTRAP) {
    user_regs_struct registers = this->registers(tid);
    if (registers.rip == *breakpoint_ + 1) {
      registers.rip = *breakpoint_;
      setRegisters(tid, registers);
      breakpoint_.reset();
      stopStarted_ = Clock::now();
      wantStopped_ = true;
      passOn(tid, 0);
      interruptRunning();
      return;
    }
  }
  if (wantSignalEvents_ && known) emit_(Event{.kind = Event::Kind::Signal, .tid = tid, .info = info});
  passOn(tid, signal);
}

/// Our stop woke the thread out of a system call that does not start again by itself: see to it that it does.
/// If a handler runs after all, the kernel turns this code into the EINTR that the program then expects.
void TracedProcess::hideInterruption(pid_t tid) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, tid, nullptr, &registers) != 0) return;
  if (static_cast<long>(registers.rax) != -EINTR || !failsWhenWoken(static_cast<long>(registers.orig_rax))) return;
  registers.rax = static_cast<unsigned long long>(restartUnlessHandled);
  ptrace(PTRACE_SETREGS, tid, nullptr, &registers);
}

}  // namespace fastprobe
