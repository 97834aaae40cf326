// Running a system call in the target, from a stopped thread that must not notice.

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <linux/rseq.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "proc_status.h"
#include "restart_codes.h"
#include "traced_process.h"

namespace fastprobe {

namespace {

constexpr uint64_t everySignal = ~uint64_t{0};
constexpr int syscallStop = SIGTRAP | 0x80;
template <typename T>
bool readTracee(pid_t tid, uint64_t address, T& value) {
  iovec local{&value, sizeof value};
  iovec remote{reinterpret_cast<void*>(address), sizeof value};
  return process_vm_readv(tid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof value);
}

/// Where the thread goes on. In a restartable sequence that is its abort handler: the kernel forgets the sequence as soon as
/// the thread runs elsewhere, and going on in its middle would break the atomicity that the program relies on.
uint64_t resumeAddress(pid_t tid, uint64_t rip) {
  __ptrace_rseq_configuration configuration{};
  if (ptrace(static_cast<__ptrace_request>(PTRACE_GET_RSEQ_CONFIGURATION), tid, sizeof configuration, &configuration) < 0) return rip;
  if (configuration.rseq_abi_pointer == 0) return rip;
  uint64_t pointer = 0;
  if (!readTracee(tid, configuration.rseq_abi_pointer + offsetof(struct rseq, rseq_cs), pointer) || pointer == 0) return rip;
  struct rseq_cs sequence{};
  if (!readTracee(tid, pointer, sequence)) return rip;
  return rip - sequence.start_ip < sequence.post_commit_offset ? sequence.abort_ip : rip;
}

/// Waits for the thread's next stop or its end; none when `deadline` passes first.
std::optional<int> waitForThread(TracerTask& task, pid_t tid, Clock::time_point deadline) {
  for (;;) {
    int status = 0;
    const pid_t found = waitpid(tid, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (found == tid) return status;
    if (found < 0) return W_EXITCODE(0, SIGKILL);  // Nothing left to wait for: it went with an exec of another thread.
    if (Clock::now() >= deadline) return std::nullopt;
    task.waitForTracee(100);
  }
}

/// Signals that cannot be blocked still arrive. SIGSTOP may act: it stops the process, but not a thread that we move on.
bool endsTheThread(int status) { return !WIFSTOPPED(status) || status >> 16 == PTRACE_EVENT_EXEC; }

/// Lifts the thread's seccomp filters for as long as it exists. Ours is not a call that the filter's author had in mind,
/// and a filter may kill for it.
class SeccompSuspended {
 public:
  SeccompSuspended(pid_t pid, pid_t tid) : tid_(tid), active_(statusField(pid, tid, "Seccomp:") != 0) {
    if (!active_) return;
    if (ptrace(PTRACE_SETOPTIONS, tid, nullptr, traceOptions | PTRACE_O_SUSPEND_SECCOMP) == 0) return;
    throw NativeError{"FASTPROBE_SECCOMP",
                      "thread " + std::to_string(tid) + " has a seccomp filter that can't be suspended: " + std::strerror(errno),
                      errno};
  }
  ~SeccompSuspended() {
    if (active_) ptrace(PTRACE_SETOPTIONS, tid_, nullptr, traceOptions);
  }
  SeccompSuspended(const SeccompSuspended&) = delete;
  SeccompSuspended& operator=(const SeccompSuspended&) = delete;

 private:
  pid_t tid_;
  bool active_;
};

/// What came of a borrowed thread.
struct RemoteResult {
  /// What the call returned, as the kernel returns it: a negative errno on failure.
  long value = 0;
  /// The call blocked for too long and was interrupted.
  bool timedOut = false;
  /// The stop the thread is in now is one of its whole process.
  bool groupStopped = false;
  /// The thread ended or called exec meanwhile: the status that wait(2) gave.
  std::optional<int> gone;
  /// ptrace refused, with this errno, before anything was changed.
  int refused = 0;
};

/// Runs a system call (its number and six arguments) in thread `tid`, which must be in a PTRACE_EVENT_STOP and is in one again afterwards, with its
/// registers, signal mask and interrupted system call as before. Neither allocates nor locks (DeathDeferred).
RemoteResult runInBorrowedThread(TracerTask& task, pid_t tid, uint64_t instruction, const uint64_t (&call)[7],
                                 std::chrono::milliseconds timeout) {
  RemoteResult result;
  user_regs_struct saved{};
  uint64_t savedMask = 0;
  if (ptrace(PTRACE_GETREGS, tid, nullptr, &saved) != 0 ||
      ptrace(static_cast<__ptrace_request>(PTRACE_GETSIGMASK), tid, sizeof savedMask, &savedMask) != 0) {
    result.refused = errno;
    return result;
  }
  saved.rip = resumeAddress(tid, saved.rip);

  user_regs_struct borrowed = saved;
  borrowed.rip = instruction;
  borrowed.orig_rax = ~0ULL;  // Not in a system call: the kernel must not restart the one it interrupted.
  borrowed.rax = call[0];
  borrowed.rdi = call[1];
  borrowed.rsi = call[2];
  borrowed.rdx = call[3];
  borrowed.r10 = call[4];
  borrowed.r8 = call[5];
  borrowed.r9 = call[6];

  DeathDeferred deferred;
  if (ptrace(PTRACE_SETREGS, tid, nullptr, &borrowed) != 0) {
    result.refused = errno;
    return result;
  }
  // Blocked signals wait in the kernel's queues, in order and with their values, until the thread is itself again.
  ptrace(static_cast<__ptrace_request>(PTRACE_SETSIGMASK), tid, sizeof everySignal, &everySignal);

  // Two syscall stops, entry and exit. They need no signal, so the target's handlers and masks do not matter.
  Clock::time_point deadline = Clock::now() + timeout;
  int syscallStops = 0;
  long signal = 0;
  while (syscallStops < 2) {
    ptrace(PTRACE_SYSCALL, tid, nullptr, signal);
    std::optional<int> status = waitForThread(task, tid, deadline);
    if (!status) {
      result.timedOut = true;
      deadline = Clock::time_point::max();
      ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
      status = waitForThread(task, tid, deadline);
    }
    if (endsTheThread(*status)) {
      result.gone = status;
      return result;
    }
    const bool atSyscall = WSTOPSIG(*status) == syscallStop;
    syscallStops += atSyscall ? 1 : 0;
    signal = atSyscall || *status >> 16 != 0 ? 0 : WSTOPSIG(*status);
  }
  user_regs_struct after{};
  ptrace(PTRACE_GETREGS, tid, nullptr, &after);
  result.value = static_cast<long>(after.rax);

  // Back into an event stop: only on the way out of one does the kernel look whether the system call that the thread was
  // in has to be started again. From a syscall stop the program would see the kernel's internal code as its result.
  ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  signal = 0;
  for (;;) {
    ptrace(PTRACE_CONT, tid, nullptr, signal);
    const std::optional<int> status = waitForThread(task, tid, Clock::time_point::max());
    if (endsTheThread(*status)) {
      result.gone = status;
      return result;
    }
    if (*status >> 16 == PTRACE_EVENT_STOP) {
      result.groupStopped = WSTOPSIG(*status) != SIGTRAP;
      break;
    }
    signal = *status >> 16 != 0 ? 0 : WSTOPSIG(*status);
  }
  // An interrupted call has overwritten what the kernel knew of the thread's own; that one then starts from its beginning.
  if (result.timedOut && static_cast<long>(saved.rax) == restartWithBlock) {
    saved.rax = static_cast<unsigned long long>(restartUnlessHandled);
  }
  ptrace(PTRACE_SETREGS, tid, nullptr, &saved);
  ptrace(static_cast<__ptrace_request>(PTRACE_SETSIGMASK), tid, sizeof savedMask, &savedMask);
  return result;
}

}  // namespace

std::vector<int64_t> TracedProcess::remoteSyscalls(pid_t tid, uint64_t instruction, const std::vector<uint64_t>& words,
                                                   const std::vector<uint8_t>& data, std::chrono::milliseconds timeout) {
  require(true);
  if (tid == 0) {
    const auto any = std::find_if(threads_.begin(), threads_.end(), [](const auto& entry) { return entry.second.stopped; });
    if (any != threads_.end()) tid = any->first;
  }
  const auto found = threads_.find(tid);
  if (found == threads_.end() || !found->second.stopped) {
    throw NativeError{"FASTPROBE_NO_SUCH_THREAD", "thread " + std::to_string(tid) + " is not there or not stopped", ESRCH};
  }
  // Below the red zone (System V ABI, 3.2.2) a stopped thread keeps nothing.
  const uint64_t dataAddress = (registers(tid).rsp - 128 - data.size()) & ~uint64_t{15};
  if (!data.empty() && pwrite(memory_, data.data(), data.size(), static_cast<off_t>(dataAddress)) != static_cast<ssize_t>(data.size())) {
    throwSystemError("cannot write below the stack of thread " + std::to_string(tid));
  }
  std::vector<int64_t> results;
  results.reserve(words.size() / 8);
  // All or, when Node dies, still all: what belongs together is not left half done.
  const DeathDeferred deferred;
  for (size_t at = 0; at + 8 <= words.size(); at += 8) {
    uint64_t call[7];
    std::copy_n(words.begin() + static_cast<ptrdiff_t>(at), 7, call);
    for (int argument = 0; argument < 6; argument++) {
      const unsigned source = (words[at + 7] >> (4 * argument)) & 15;
      if (source == 15) call[1 + argument] = dataAddress;
      if (source >= 1 && source <= results.size()) call[1 + argument] = static_cast<uint64_t>(results[source - 1]);
    }
    results.push_back(remoteSyscall(tid, instruction, call, timeout));
    if (results.back() < 0 && results.back() > -4096) break;
  }
  return results;
}

long TracedProcess::remoteSyscall(pid_t tid, uint64_t instruction, const uint64_t (&call)[7], std::chrono::milliseconds timeout) {
  const SeccompSuspended suspended(pid_, tid);
  const unsigned execs = execs_;
  const RemoteResult result = runInBorrowedThread(task_, tid, instruction, call, timeout);
  if (result.refused != 0) throwSystemError("cannot run a system call in thread " + std::to_string(tid), result.refused);
  if (result.gone) {
    onStatus(tid, *result.gone);
    reap();
    throwIfGone(execs);
    throw NativeError{"FASTPROBE_NO_SUCH_THREAD", "thread " + std::to_string(tid) + " ended during a remote system call", 0};
  }
  const auto thread = threads_.find(tid);
  if (thread != threads_.end()) thread->second.groupStopped = result.groupStopped;
  if (result.timedOut) {
    throw NativeError{"FASTPROBE_REMOTE_CALL_BLOCKED",
                      "system call " + std::to_string(call[0]) + " did not return in time and was interrupted", EINTR};
  }
  return result.value;
}

}  // namespace fastprobe
