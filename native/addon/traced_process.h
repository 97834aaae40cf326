// One process under ptrace: its threads, their stops, and the way back out.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#include "tracer_task.h"

namespace fastprobe {

using Clock = std::chrono::steady_clock;

/// What ptrace tells us of: new threads and processes, exec; and system-call stops that can't be taken for a SIGTRAP.
constexpr long traceOptions = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |
                              PTRACE_O_TRACESYSGOOD;

/// Something that happened in the target, on its way to JavaScript. Which fields count depends on the kind.
struct Event {
  enum class Kind { Exit, Exec, Fork, Thread, ThreadExit, Signal };
  Kind kind;
  pid_t tid = 0;
  /// Fork and Thread: the new process or thread. Exec: the thread that called it.
  pid_t other = 0;
  /// Fork: "fork", "vfork" or "clone".
  const char* how = "";
  /// Exit and ThreadExit: the status of wait(2).
  int status = 0;
  siginfo_t info{};
};

/// The threads of one target, seized. Every member is called in the tracer task only.
///
/// The rule that keeps signals safe: a thread that is stopped for us is always in a PTRACE_EVENT_STOP, never in the middle
/// of a signal's delivery. A signal that arrives while we stop a thread is delivered first and the thread stops at the
/// first instruction of its handler. So nothing is ever held back, and nothing can be lost by letting go.
class TracedProcess {
 public:
  TracedProcess(TracerTask& task, std::function<void(const Event&)> emit);
  ~TracedProcess();
  TracedProcess(const TracedProcess&) = delete;
  TracedProcess& operator=(const TracedProcess&) = delete;

  /// Seizes every thread of `pid`. The process runs on.
  void attach(pid_t pid);
  /// Takes over a child of the task that is about to call exec, and returns when it has done so, stopped.
  /// `release` lets the child go on to exec. False when the child ended without exec.
  bool adopt(pid_t child, const std::function<void()>& release);
  /// Runs a process just launched until a thread arrives at `address`, and stops it there. Only then would it
  /// survive the end of the tracer.
  void runTo(uint64_t address, std::chrono::milliseconds timeout);
  /// Stops every thread. Throws FASTPROBE_TARGET_UNRESPONSIVE after `timeout`, with everything running again.
  void stop(std::chrono::milliseconds timeout);
  /// Lets every thread go on; those of a process that is itself stopped (SIGSTOP) stay stopped.
  void resume();
  /// Stops what runs, and lets go of every thread. Afterwards the process owes us nothing.
  void detach(std::chrono::milliseconds timeout);
  /// Lets go in whatever way works; nobody waits for the outcome.
  void abandon();
  void kill(int signal);
  /// Takes note of every change that wait(2) has for us, without blocking.
  void reap();
  /// Runs system calls in stopped thread `tid` (any, if 0), from the syscall instruction at `instruction`, up to the first
  /// that fails, and returns what they returned. Each is eight words: the number, six arguments, and four bits per argument
  /// that say what to put in its place: 0 nothing, 1 to 14 the result of that call, 15 the address of `data`, which is
  /// put where the thread keeps nothing.
  std::vector<int64_t> remoteSyscalls(pid_t tid, uint64_t instruction, const std::vector<uint64_t>& words,
                                      const std::vector<uint8_t>& data, std::chrono::milliseconds timeout);

  /// Throws unless the process is there, seized, and (if `mustBeStopped`) stopped.
  void require(bool mustBeStopped = false) const;
  pid_t pid() const { return pid_; }
  /// /proc/pid/mem of the present program image.
  int memory() const { return memory_; }
  /// True when nothing is left to trace or to wait for.
  bool finished() const { return finished_; }
  /// How long the threads were held at the last stop, in microseconds: from the first interrupt to the last resume.
  double stopMicroseconds() const { return stopMicroseconds_; }
  void wantSignalEvents(bool want) { wantSignalEvents_ = want; }

  std::vector<pid_t> stoppedThreads() const;
  user_regs_struct registers(pid_t tid) const;
  void setRegisters(pid_t tid, const user_regs_struct& registers);
  std::vector<uint8_t> xstate(pid_t tid) const;
  void setXstate(pid_t tid, std::vector<uint8_t>& bytes);

 private:
  struct Thread {
    bool stopped = false;
    /// Stopped with its whole process (SIGSTOP and the like): resuming us must not resume it.
    bool groupStopped = false;
    /// A leader that has ended while other threads go on; it never stops again.
    bool zombie = false;
    /// False for a leader that had ended before we came: the kernel will not tell us when the process ends.
    bool seized = true;
  };

  long remoteSyscall(pid_t tid, uint64_t instruction, const uint64_t (&call)[7], std::chrono::milliseconds timeout);
  void openMemory();
  void seize(pid_t tid, long options);
  void setOptions(long options);
  bool isThreadOfOurs(pid_t tid) const;
  int seizeUnknownThreads();
  std::vector<pid_t> listThreads() const;
  bool everyThreadIsKnown() const;
  bool everyThreadIsStopped() const;
  void markZombies();
  void interruptRunning();
  void waitUntilStopped(Clock::time_point deadline);
  void resumeThread(pid_t tid, Thread& thread);
  void passOn(pid_t tid, int signal);
  void detachThread(pid_t tid);
  void onStatus(pid_t tid, int status);
  void onStop(pid_t tid, int status);
  void onProcessEnd(int status);
  void onNewTask(pid_t tid, int event);
  void onExec(pid_t formerTid);
  void onSignal(pid_t tid, int signal);
  void hideInterruption(pid_t tid);
  void throwIfGone(unsigned execsBefore) const;

  TracerTask& task_;
  std::function<void(const Event&)> emit_;
  pid_t pid_ = 0;
  int memory_ = -1;
  bool isChild_ = false;
  bool attached_ = false;
  bool finished_ = false;
  bool wantStopped_ = false;
  bool wantSignalEvents_ = false;
  std::optional<int> exitStatus_;
  /// Grows with each exec, so that an operation can tell that the program under it was replaced.
  unsigned execs_ = 0;
  /// Where runTo() waits for a thread, as long as it does.
  std::optional<uint64_t> breakpoint_;
  std::map<pid_t, Thread> threads_;
  /// New threads whose first stop came before their maker's event.
  std::set<pid_t> announcedByStop_;
  Clock::time_point stopStarted_;
  double stopMicroseconds_ = 0;
};

}  // namespace fastprobe
