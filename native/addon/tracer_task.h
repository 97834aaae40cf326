// The task that makes every ptrace call for one target.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <sys/types.h>

namespace fastprobe {

/// A job for the task. Jobs run one after the other, in the order they were posted.
using Job = std::function<void()>;

/// The tracer task: an OS thread that shares Node's memory and files but is a process of its own to the kernel.
///
/// Why not an ordinary thread: the kernel counts every thread of a process as the parent of that process's children. When
/// tracer and parent are the same process, libuv's waitpid() for a child takes the child's ptrace stops (and reports
/// a bogus exit), and our waitpid() takes the exit that libuv waits for. A task outside Node's thread group is a stranger
/// to Node's children: it sees their ptrace stops and nothing else does, and their exits reach Node as always.
///
/// What happens when Node dies (kill -9, a crash, or just its end): the kernel sends the task SIGTERM, which ends it,
/// and the end of a tracer detaches all its tracees unharmed. Only where a tracee's registers are not its own
/// (DeathDeferred) is that put off.
///
/// Owns: the task, its stack, its job queue. Runs: `body`, from start() until it returns. Never: touches V8.
class TracerTask {
 public:
  /// `body` runs in the task. `ended` runs afterwards in an ordinary thread, also when the task was killed.
  static std::shared_ptr<TracerTask> start(std::function<void(TracerTask&)> body, std::function<void()> ended);
  ~TracerTask();
  TracerTask(const TracerTask&) = delete;
  TracerTask& operator=(const TracerTask&) = delete;

  /// Hands the task a job. Callable from any thread; takes no lock.
  void post(Job job);

  // For the body only:

  /// Blocks until a tracee changed its state or a job came.
  void wait();
  /// Blocks until a tracee changed its state or `milliseconds` have passed.
  void waitForTracee(int milliseconds);
  /// The next job, or an empty one.
  Job takeJob();

 private:
  struct Node {
    Job job;
    Node* next;
  };

  TracerTask(std::function<void(TracerTask&)> body, std::function<void()> ended);
  void run();
  int enter();

  std::function<void(TracerTask&)> body_;
  std::function<void()> ended_;
  pid_t nodePid_;
  int signalFd_ = -1;
  int wakeFd_ = -1;
  std::atomic<Node*> posted_{nullptr};
  Node* taken_ = nullptr;
};

/// While one exists, the death of Node does not end the task: for the moments in which a tracee's registers or code
/// are not its own. The code inside must neither allocate nor lock: with Node dead, nobody may be left to unlock.
class DeathDeferred {
 public:
  DeathDeferred();
  ~DeathDeferred();
  DeathDeferred(const DeathDeferred&) = delete;
  DeathDeferred& operator=(const DeathDeferred&) = delete;

 private:
  sigset_t before_;
};

}  // namespace fastprobe
