#include "traced_process.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "proc_status.h"
#include "restart_codes.h"

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

// --- what wait(2) tells ------------------------------------------------------------------------------------------------

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
