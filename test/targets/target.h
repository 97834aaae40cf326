// What every test target needs: it dies with the test that started it, and ends when its standard input does.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

UNUSED static void die_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

UNUSED static void say(const char *text) {
  (void)!write(1, text, strlen(text));
  (void)!write(1, "\n", 1);
}

// Returns when standard input is closed or has a line for us.
UNUSED static void wait_for_finish(void) {
  char byte;
  while (read(0, &byte, 1) < 0 && errno == EINTR) {
  }
}

UNUSED static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
