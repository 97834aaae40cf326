// Sleeps, computes and blocks in system calls by turns, and checks that each of them does what it should.
#include "target.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

static atomic_int finish;
static long turns, errors;

static void check(int good, const char *what) {
  if (good) return;
  errors++;
  fprintf(stderr, "%s: errno %d (%s)\n", what, errno, strerror(errno));
}

static void arm(int timer, long nanoseconds) {
  struct itimerspec when = {.it_value = {0, nanoseconds}};
  timerfd_settime(timer, 0, &when, NULL);
}

static void *turn(void *unused) {
  int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
  const long span = 2000000;
  uint64_t expirations;
  while (!finish) {
    double start = now();
    // The kernel writes the time left at every interruption, also one that it hides: what is in `left` says nothing.
    struct timespec sleep = {0, span}, left;
    check(nanosleep(&sleep, &left) == 0, "nanosleep");
    check(now() - start >= span / 1e9, "nanosleep was too short");

    volatile uint64_t sum = 0;
    for (uint64_t i = 0; i < 200000; i++) sum += i;
    check(sum == 19999900000, "sum");

    arm(timer, span);
    check(read(timer, &expirations, 8) == 8 && expirations == 1, "read");

    arm(timer, span);
    check(epoll_wait(epoll, &event, 1, -1) == 1, "epoll_wait");
    check(read(timer, &expirations, 8) == 8, "read after epoll_wait");

    start = now();
    check(poll(NULL, 0, 2) == 0, "poll");
    check(now() - start >= 0.002, "poll was too short");

    uint32_t word = 1;
    struct timespec limit = {0, span};
    long result = syscall(SYS_futex, &word, FUTEX_WAIT, 1, &limit, NULL, 0);
    check(result == -1 && errno == ETIMEDOUT, "futex");
    turns++;
  }
  return unused;
}

int main(void) {
  die_with_parent();
  pthread_t thread;
  pthread_create(&thread, NULL, turn, NULL);
  say("ready");
  wait_for_finish();
  finish = 1;
  pthread_join(thread, NULL);
  printf("{\"turns\":%ld,\"errors\":%ld}\n", turns, errors);
  return 0;
}
