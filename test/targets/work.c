// Threads that call a function a known number of times and count what a probe in it must count.
#include "target.h"

struct node {
  struct node *next;
  int id;
};

static struct node nodes[8];
static atomic_long calls, large, finds, errors;
static int threads_wanted = 4, rounds = 20000;
static atomic_int finish;

__attribute__((noinline)) long step(int i, long factor) {
  long result = i * factor;
  if (result % 7 == 3) result += 1;  // LINE step
  return result;
}

// Its first instruction has two bytes, and a jump goes to the one behind it; that one is jumped to by its own neighbour.
long count_down(int from);
__asm__(".globl count_down\n.type count_down, @function\ncount_down: mov %edi, %eax\n1: dec %eax\njnz 1b\nret\n.size count_down, . - count_down");

// Half of the pointers in the chain are null.
__attribute__((noinline)) int find(struct node *p) {
  int found = p != NULL;
  return found + 1;  // LINE find
}

static void *worker(void *argument) {
  long seed = (long)argument;
  for (int round = 0; !finish && (rounds == 0 || round < rounds); round++) {
    int i = (int)((round * 31 + seed) % 1000);
    long expected = i * 3L;
    if (expected % 7 == 3) expected += 1;
    if (step(i, 3) != expected) errors++;
    if (count_down(3) != 0) errors++;
    calls++;
    if (i > 900) large++;
    struct node *p = round % 4 == 3 ? NULL : &nodes[round % 8];
    if (find(p) != 1 + (p != NULL)) errors++;
    if (p && p->next && p->next->next && p->next->next->id == 7) finds++;
  }
  return NULL;
}

// work [threads [rounds, 0 for ever]]: starts when it gets a line, and prints its counts when done.
int main(int argc, char **argv) {
  die_with_parent();
  if (argc > 1) threads_wanted = atoi(argv[1]);
  if (argc > 2) rounds = atoi(argv[2]);
  for (int i = 0; i < 8; i++) nodes[i] = (struct node){i % 2 ? &nodes[(i + 1) % 8] : i % 4 ? &nodes[5] : NULL, i};
  nodes[6].id = 7;
  say("ready");
  wait_for_finish();
  pthread_t threads[threads_wanted];
  for (long i = 0; i < threads_wanted; i++) pthread_create(&threads[i], NULL, worker, (void *)i);
  if (rounds == 0) {
    wait_for_finish();
    finish = 1;
  }
  for (int i = 0; i < threads_wanted; i++) pthread_join(threads[i], NULL);
  printf("{\"calls\":%ld,\"large\":%ld,\"finds\":%ld,\"errors\":%ld}\n", calls, large, finds, errors);
  fflush(stdout);
  wait_for_finish();
  return 0;
}
