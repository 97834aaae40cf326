#include "launch.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"

namespace fastprobe {

namespace {

constexpr size_t stackSize = 64 * 1024;

/// A system call without errno: the child shares the task's memory until its exec, its thread-local storage included.
long raw(long nr, long a = 0, long b = 0, long c = 0, long d = 0) {
  long result;
  register long r10 asm("r10") = d;
  asm volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return result;
}

template <typename T>
long asLong(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

struct Child {
  const LaunchPlan* plan;
  char** arguments;
  char** environment;
  std::atomic<int> released{0};
  /// What failed, if exec was not reached.
  int error = 0;
  const char* step = "";
};

bool fails(Child& child, const char* step, long result) {
  if (result >= 0) return false;
  child.error = static_cast<int>(-result);
  child.step = step;
  return true;
}

/// Node ignores SIGPIPE and the task blocks everything; a program starts with neither.
void resetSignals() {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } action{SIG_DFL, 0, nullptr, 0};
  for (int signal = 1; signal < _NSIG; signal++) raw(SYS_rt_sigaction, signal, asLong(&action), 0, 8);
  const unsigned long none = 0;
  raw(SYS_rt_sigprocmask, SIG_SETMASK, asLong(&none), 0, 8);
}

/// From here to exec: raw system calls only.
int childMain(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  const LaunchPlan& plan = *child.plan;
  while (child.released.load() == 0) raw(SYS_futex, asLong(&child.released), FUTEX_WAIT, 0, 0);
  raw(SYS_setpgid, 0, plan.group);
  // First out of the way of 0, 1 and 2, then into their places.
  long moved[3];
  for (int i = 0; i < 3; i++) {
    moved[i] = raw(SYS_fcntl, plan.stdio[i], F_DUPFD_CLOEXEC, 3);
    if (fails(child, "use the given stdio", moved[i])) return 127;
  }
  for (int i = 0; i < 3; i++) {
    if (fails(child, "use the given stdio", raw(SYS_dup2, moved[i], i))) return 127;
  }
  raw(SYS_close_range, 3, UINT_MAX, 4 /* CLOSE_RANGE_CLOEXEC */);
  if (!plan.folder.empty() && fails(child, "enter the working folder", raw(SYS_chdir, asLong(plan.folder.c_str())))) {
    return 127;
  }
  resetSignals();
  fails(child, "run the program",
        raw(SYS_execve, asLong(plan.file.c_str()), asLong(child.arguments), asLong(child.environment)));
  return 127;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

void launch(TracedProcess& process, const LaunchPlan& plan) {
  std::vector<char*> arguments = pointers(plan.arguments);
  std::vector<char*> environment = pointers(plan.environment);
  Child child{.plan = &plan, .arguments = arguments.data(), .environment = environment.data()};
  void* stack = mmap(nullptr, stackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) throwSystemError("cannot make a stack for the new process");
  // CLONE_VM: a copy of Node's page tables would cost milliseconds and be thrown away by exec.
  const pid_t pid = clone(childMain, static_cast<char*>(stack) + stackSize, CLONE_VM | SIGCHLD, &child);
  if (pid < 0) {
    const int number = errno;
    munmap(stack, stackSize);
    throwSystemError("cannot start a process", number);
  }
  const bool running = process.adopt(pid, [&child] {
    child.released.store(1);
    syscall(SYS_futex, &child.released, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  });
  munmap(stack, stackSize);
  if (running) return;
  throw NativeError{"FASTPROBE_LAUNCH_FAILED",
                    std::string("cannot ") + child.step + " for '" + plan.file + "': " + std::strerror(child.error), child.error};
}

}  // namespace fastprobe
