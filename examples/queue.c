// A program to try fastprobe on. Three threads push items into queues of their own, as fast as they can, and take them out
// again; now and then comes an item that is too large. It prints how many items it pushes in a second, until its input ends.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { threads = 3, rare = 4000000 };

struct item {
  struct item *next;
  int id, size;
};

struct queue {
  struct item *head;
  int length, capacity;
  long pushed;
};

static struct queue queues[threads];
// Set when the program is to end.
static atomic_int finish;

// The head of a queue is kept so that it can be looked at; the others are only counted.
static void queue_clear(struct queue *q) {
  q->length = 0;
  q->head = NULL;
}

// Returns the new length, or 0 when the item does not fit.
// (The README and the tests probe line 42, below.)
static int queue_push(struct queue *q, struct item *item) {
  int n = q->length + item->size;
  int cap = q->capacity;
  q->pushed++;
  if (q->head == NULL) q->head = item;
  if (n > cap) return 0;
  q->length = n;
  return n;
}

static void *worker(void *argument) {
  struct queue *q = argument;
  struct item items[8] = {{0}};
  for (int id = 1; !finish; id++) {
    struct item *item = &items[id % 8];
    *item = (struct item){.id = id, .size = id % rare == 0 ? 1000 : id % 8};
    queue_push(q, item);
    if (id % 8 == 0) queue_clear(q);
  }
  return NULL;
}

static void *report(void *unused) {
  for (long before = 0;;) {
    usleep(200000);
    long pushed = 0;
    for (int i = 0; i < threads; i++) pushed += queues[i].pushed;
    printf("%ld\n", (pushed - before) * 5);
    fflush(stdout);
    before = pushed;
  }
  return unused;
}

int main(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pthread_t workers[threads], reporter;
  for (int i = 0; i < threads; i++) {
    queues[i].capacity = 100 + i;
    pthread_create(&workers[i], NULL, worker, &queues[i]);
  }
  pthread_create(&reporter, NULL, report, NULL);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  finish = 1;
  for (int i = 0; i < threads; i++) pthread_join(workers[i], NULL);
  return 0;
}
