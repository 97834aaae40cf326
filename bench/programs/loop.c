// The loop of the literature: array[i] = i, a million times, over and over. Prints the nanoseconds per iteration of each round,
// and when the round began.
// Arguments: iterations per round, and `hand` for a trampoline with the condition written by hand into the same place.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

int array[1000001];
long hits;

static void fill(int n) {
  for (int i = 0; i < n; i++) {
    array[i] = i;  // LINE store
  }
}

// As good as one could do by hand: a jump there, one load, two comparisons, a jump back.
static void fill_by_hand(int n) {
  for (int i = 0; i < n; i++) {
    __asm__ volatile(
        "jmp 1f\n2:\n"
        ".pushsection .text.by_hand, \"ax\"\n"
        "1: movl %0, %%eax\n testl %%eax, %%eax\n js 3f\n cmpl $1000000, %%eax\n jg 3f\n jmp 2b\n"
        "3: lock incq hits(%%rip)\n jmp 2b\n"
        ".popsection\n"
        :
        : "rm"(i)
        : "eax", "cc");
    array[i] = i;
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int n = argc > 1 ? atoi(argv[1]) : 1000000;
  int by_hand = argc > 2 && strcmp(argv[2], "hand") == 0;
  for (;;) {
    double start = now();
    if (by_hand) fill_by_hand(n);
    else fill(n);
    printf("%f %.0f\n", (now() - start) / n, start);
    fflush(stdout);
  }
}
