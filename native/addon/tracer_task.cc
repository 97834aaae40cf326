#include "tracer_task.h"

#include <ctime>
#include <thread>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"

namespace fastprobe {

namespace {

constexpr int deathSignal = SIGTERM;
constexpr size_t stackSize = 512 * 1024;

sigset_t setOf(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

void blockAllSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

TracerTask::TracerTask(std::function<void(TracerTask&)> body, std::function<void()> ended)
    : body_(std::move(body)), ended_(std::move(ended)), nodePid_(getpid()) {
  wakeFd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  sigset_t child = setOf(SIGCHLD);
  signalFd_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  if (wakeFd_ < 0 || signalFd_ < 0) throwSystemError("cannot make the tracer's file descriptors");
}

TracerTask::~TracerTask() {
  close(wakeFd_);
  close(signalFd_);
  while (takeJob()) {
  }
}

std::shared_ptr<TracerTask> TracerTask::start(std::function<void(TracerTask&)> body, std::function<void()> ended) {
  std::shared_ptr<TracerTask> task(new TracerTask(std::move(body), std::move(ended)));
  std::thread([task] { task->run(); }).detach();
  return task;
}

/// In the ordinary thread: it lends the task its thread-local storage (errno, malloc's caches, exceptions), which is why it
/// must sleep for as long as the task lives. CLONE_VFORK makes the kernel see to that.
void TracerTask::run() {
  blockAllSignals();
  void* stack = mmap(nullptr, stackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack != MAP_FAILED) {
    mprotect(stack, 4096, PROT_NONE);
    auto enter = [](void* self) { return static_cast<TracerTask*>(self)->enter(); };
    // No exit signal: Node must not hear of this child. CLONE_FILES: shared regions and pipes are opened on both sides.
    const int flags = CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS;
    const pid_t task = clone(enter, static_cast<char*>(stack) + stackSize, flags, this);
    if (task > 0) waitpid(task, nullptr, __WALL);
    munmap(stack, stackSize);
  }
  ended_();
}

/// The first thing the task runs.
int TracerTask::enter() {
  prctl(PR_SET_NAME, "fastprobe");
  prctl(PR_SET_PDEATHSIG, deathSignal);
  // A process group of its own: whoever kills Node's whole group gives the task the time to leave properly.
  setpgid(0, 0);
  // Ahead of the target's own threads, where we may: one that has just been resumed must not keep the others waiting for
  // theirs by taking the tracer's CPU for a whole time slice. What the task forks gets the ordinary priority.
  const sched_param priority{.sched_priority = 1};
  sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority);
  signal(deathSignal, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);
  sigset_t death = setOf(deathSignal);
  pthread_sigmask(SIG_UNBLOCK, &death, nullptr);
  if (getppid() != nodePid_) return 0;  // Node died before the kernel knew that we want to hear of it.
  body_(*this);
  return 0;
}

void TracerTask::post(Job job) {
  Node* node = new Node{std::move(job), posted_.load(std::memory_order_relaxed)};
  while (!posted_.compare_exchange_weak(node->next, node, std::memory_order_release, std::memory_order_relaxed)) {
  }
  const uint64_t one = 1;
  // It can fail only when the counter is full, and then the task is awake anyway.
  (void)!write(wakeFd_, &one, sizeof one);
}

Job TracerTask::takeJob() {
  if (taken_ == nullptr) {
    // Newest first as posted; turn it round.
    for (Node* node = posted_.exchange(nullptr, std::memory_order_acquire); node != nullptr;) {
      Node* next = node->next;
      node->next = taken_;
      taken_ = node;
      node = next;
    }
  }
  if (taken_ == nullptr) return {};
  std::unique_ptr<Node> node(taken_);
  taken_ = node->next;
  return std::move(node->job);
}

void TracerTask::wait() {
  pollfd sources[] = {{signalFd_, POLLIN, 0}, {wakeFd_, POLLIN, 0}};
  poll(sources, 2, -1);
  uint64_t posts;
  (void)!read(wakeFd_, &posts, sizeof posts);
  signalfd_siginfo info[4];
  (void)!read(signalFd_, info, sizeof info);
}

void TracerTask::waitForTracee(int milliseconds) {
  const sigset_t child = setOf(SIGCHLD);
  const timespec limit{milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  sigtimedwait(&child, nullptr, &limit);
}

DeathDeferred::DeathDeferred() {
  const sigset_t death = setOf(deathSignal);
  pthread_sigmask(SIG_BLOCK, &death, &before_);
}

DeathDeferred::~DeathDeferred() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace fastprobe
