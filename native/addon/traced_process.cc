#include "traced_process.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "error.h"
#include "proc_status.h"

namespace fastprobe {

TracedProcess::TracedProcess(TracerTask& task, std::function<void(const Event&)> emit)
    : task_(task), emit_(std::move(emit)) {}

TracedProcess::~TracedProcess() {
  if (memory_ >= 0) close(memory_);
}

void TracedProcess::openMemory() {
  if (memory_ >= 0) close(memory_);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/mem", pid_);
  memory_ = open(path, O_RDWR | O_CLOEXEC);
}

void TracedProcess::require(bool mustBeStopped) const {
  if (exitStatus_) throw NativeError{"FASTPROBE_TARGET_EXITED", "process " + std::to_string(pid_) + " has ended", 0};
  if (!attached_) throw NativeError{"FASTPROBE_NOT_ATTACHED", "process " + std::to_string(pid_) + " is not attached", 0};
  if (mustBeStopped && !wantStopped_) {
    throw NativeError{"FASTPROBE_NOT_STOPPED", "process " + std::to_string(pid_) + " is running", 0};
  }
}

void TracedProcess::throwIfGone(unsigned execsBefore) const {
  require();
  if (execs_ != execsBefore) {
    throw NativeError{"FASTPROBE_TARGET_EXECED", "process " + std::to_string(pid_) + " replaced its program (exec)", 0};
  }
}

// --- attaching ---------------------------------------------------------------------------------------------------------

std::vector<pid_t> TracedProcess::listThreads() const {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid_);
  std::vector<pid_t> tids;
  DIR* folder = opendir(path);
  if (folder == nullptr) return tids;
  while (const dirent* entry = readdir(folder)) {
    const pid_t tid = std::atoi(entry->d_name);
    if (tid > 0) tids.push_back(tid);
  }
  closedir(folder);
  return tids;
}

bool TracedProcess::isThreadOfOurs(pid_t tid) const {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d", pid_, tid);
  return access(path, F_OK) == 0;
}

/// Seizes one thread, or notes that it is a zombie, or that it is gone.
void TracedProcess::seize(pid_t tid, long options) {
  if (ptrace(PTRACE_SEIZE, tid, nullptr, options) == 0) {
    threads_.emplace(tid, Thread{});
    return;
  }
  const int number = errno;
  const char state = threadState(pid_, tid);
  if (state == 0 || state == 'X') return;
  if (state == 'Z') {
    threads_.emplace(tid, Thread{.zombie = true, .seized = false});
    return;
  }
  // A thread that a seized one has just made is ours already; its first stop is on its way.
  if (statusField(pid_, tid, "TracerPid:") == getpid()) {
    threads_.emplace(tid, Thread{});
    return;
  }
  throw NativeError{number == ESRCH ? "FASTPROBE_NO_SUCH_PROCESS" : "FASTPROBE_PERMISSION",
                    "cannot attach to thread " + std::to_string(tid) + ": " + std::strerror(number), number};
}

/// How many threads were not known before.
int TracedProcess::seizeUnknownThreads() {
  reap();
  int found = 0;
  for (const pid_t tid : listThreads()) {
    if (threads_.count(tid) != 0) continue;
    seize(tid, traceOptions);
    found += 1;
  }
  return found;
}

void TracedProcess::attach(pid_t pid) {
  pid_ = pid;
  attached_ = true;
  try {
    seize(pid, traceOptions);
    if (threads_.empty()) throw NativeError{"FASTPROBE_NO_SUCH_PROCESS", "no process " + std::to_string(pid), ESRCH};
    // A seized thread's new threads come attached (PTRACE_O_TRACECLONE), so only what unseized ones make can be new.
    while (seizeUnknownThreads() > 0) {
    }
    require();
    openMemory();
  } catch (...) {
    abandon();
    attached_ = false;
    throw;
  }
}

bool TracedProcess::adopt(pid_t child, const std::function<void()>& release) {
  pid_ = child;
  isChild_ = true;
  attached_ = true;
  // Until it has arrived at its entry point (runTo) it is not a program that could go on without us.
  seize(child, traceOptions | PTRACE_O_EXITKILL);
  wantStopped_ = true;
  release();
  while (execs_ == 0 && !exitStatus_) {
    task_.waitForTracee(1000);
    reap();
  }
  if (exitStatus_) return false;
  waitUntilStopped(Clock::now() + std::chrono::seconds(5));
  return true;
}

// --- stopping and resuming ---------------------------------------------------------------------------------------------

bool TracedProcess::everyThreadIsStopped() const {
  return std::all_of(threads_.begin(), threads_.end(),
                     [](const auto& entry) { return entry.second.stopped || entry.second.zombie; });
}

/// With all known threads stopped, the kernel's count of threads can exceed ours only by threads we do not know: made by
/// one that we had not seized yet, or with CLONE_UNTRACED.
bool TracedProcess::everyThreadIsKnown() const {
  const pid_t witness = threads_.begin()->first;
  return statusField(pid_, witness, "Threads:") <= static_cast<int>(threads_.size());
}

void TracedProcess::markZombies() {
  for (auto& [tid, thread] : threads_) {
    if (!thread.stopped && threadState(pid_, tid) == 'Z') thread.zombie = true;
  }
}

void TracedProcess::interruptRunning() {
  for (const auto& [tid, thread] : threads_) {
    if (!thread.stopped && !thread.zombie) ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  }
}

void TracedProcess::waitUntilStopped(Clock::time_point deadline) {
  const unsigned execs = execs_;
  int patience = 2;
  for (;;) {
    reap();
    throwIfGone(execs);
    if (everyThreadIsStopped()) {
      if (everyThreadIsKnown()) return;
      if (seizeUnknownThreads() > 0) interruptRunning();
    }
    if (Clock::now() >= deadline) break;
    const auto before = Clock::now();
    task_.waitForTracee(patience);
    if (Clock::now() - before < std::chrono::milliseconds(patience)) continue;
    // Nothing moved for a while: a leader that has ended never stops, and a thread attached late may have missed its interrupt.
    markZombies();
    interruptRunning();
    patience = std::min(patience * 2, 100);
  }
  std::string stragglers;
  for (const auto& [tid, thread] : threads_) {
    if (thread.stopped || thread.zombie) continue;
    stragglers += (stragglers.empty() ? "" : ", ") + std::to_string(tid) + " (state " + threadState(pid_, tid) + ")";
  }
  throw NativeError{"FASTPROBE_TARGET_UNRESPONSIVE",
                    "not every thread of process " + std::to_string(pid_) + " could be stopped: " + stragglers, 0};
}

void TracedProcess::stop(std::chrono::milliseconds timeout) {
  require();
  if (wantStopped_) return;
  stopStarted_ = Clock::now();
  wantStopped_ = true;
  interruptRunning();
  try {
    waitUntilStopped(stopStarted_ + timeout);
  } catch (...) {
    if (!exitStatus_) resume();
    throw;
  }
}

void TracedProcess::resumeThread(pid_t tid, Thread& thread) {
  // LISTEN leaves a thread of a stopped process stopped, and tells us when SIGCONT wakes it.
  const auto request = thread.groupStopped ? PTRACE_LISTEN : PTRACE_CONT;
  thread.stopped = false;
  ptrace(request, tid, nullptr, nullptr);
}

void TracedProcess::resume() {
  require();
  wantStopped_ = false;
  for (auto& [tid, thread] : threads_) {
    if (thread.stopped) resumeThread(tid, thread);
  }
  stopMicroseconds_ = std::chrono::duration<double, std::micro>(Clock::now() - stopStarted_).count();
}

void TracedProcess::detachThread(pid_t tid) { ptrace(PTRACE_DETACH, tid, nullptr, nullptr); }

void TracedProcess::detach(std::chrono::milliseconds timeout) {
  require();
  stop(timeout);
  for (const auto& [tid, thread] : threads_) {
    if (thread.stopped) detachThread(tid);
  }
  stopMicroseconds_ = std::chrono::duration<double, std::micro>(Clock::now() - stopStarted_).count();
  threads_.clear();
  attached_ = false;
  wantStopped_ = false;
  // A child of ours is waited for until it ends; of anyone else's we shall hear no more.
  finished_ = !isChild_;
}

void TracedProcess::abandon() {
  try {
    detach(std::chrono::milliseconds(1000));
  } catch (const NativeError&) {
    // Not attached, gone, or unresponsive: the end of the task lets go of what is left.
  }
  finished_ = true;
}

void TracedProcess::kill(int signal) {
  if (exitStatus_) return;
  if (::kill(pid_, signal) != 0 && errno != ESRCH) throwSystemError("cannot signal process " + std::to_string(pid_));
}

void TracedProcess::setOptions(long options) {
  for (const pid_t tid : stoppedThreads()) ptrace(PTRACE_SETOPTIONS, tid, nullptr, options);
}

void TracedProcess::runTo(uint64_t address, std::chrono::milliseconds timeout) {
  require(true);
  const auto deadline = Clock::now() + timeout;
  const unsigned execs = execs_;
  if (registers(pid_).rip != address) {
    constexpr uint8_t trap = 0xcc;
    uint8_t original = 0;
    const off_t place = static_cast<off_t>(address);
    if (pread(memory_, &original, 1, place) != 1 || pwrite(memory_, &trap, 1, place) != 1) {
      throwSystemError("cannot place a breakpoint at the entry point");
    }
    breakpoint_ = address;
    resume();
    while (breakpoint_) {
      task_.waitForTracee(100);
      reap();
      throwIfGone(execs);
      if (Clock::now() >= deadline) {
        throw NativeError{"FASTPROBE_TARGET_UNRESPONSIVE", "the program did not arrive at its entry point", 0};
      }
    }
    waitUntilStopped(deadline);
    (void)!pwrite(memory_, &original, 1, place);
  }
  setOptions(traceOptions);
}

// --- registers ---------------------------------------------------------------------------------------------------------

std::vector<pid_t> TracedProcess::stoppedThreads() const {
  std::vector<pid_t> tids;
  for (const auto& [tid, thread] : threads_) {
    if (thread.stopped) tids.push_back(tid);
  }
  return tids;
}

user_regs_struct TracedProcess::registers(pid_t tid) const {
  user_regs_struct registers{};
  if (ptrace(PTRACE_GETREGS, tid, nullptr, &registers) != 0) {
    throwSystemError("cannot read the registers of thread " + std::to_string(tid));
  }
  return registers;
}

void TracedProcess::setRegisters(pid_t tid, const user_regs_struct& registers) {
  if (ptrace(PTRACE_SETREGS, tid, nullptr, &registers) != 0) {
    throwSystemError("cannot set the registers of thread " + std::to_string(tid));
  }
}

std::vector<uint8_t> TracedProcess::xstate(pid_t tid) const {
  std::vector<uint8_t> bytes(64 * 1024);
  iovec area{bytes.data(), bytes.size()};
  if (ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &area) != 0) {
    throwSystemError("cannot read the extended state of thread " + std::to_string(tid));
  }
  bytes.resize(area.iov_len);
  return bytes;
}

void TracedProcess::setXstate(pid_t tid, std::vector<uint8_t>& bytes) {
  iovec area{bytes.data(), bytes.size()};
  if (ptrace(PTRACE_SETREGSET, tid, NT_X86_XSTATE, &area) != 0) {
    throwSystemError("cannot set the extended state of thread " + std::to_string(tid));
  }
}

}  // namespace fastprobe
