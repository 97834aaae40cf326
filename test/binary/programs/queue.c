#include "queue.h"
#include <stdlib.h>

struct opaque {
  int hidden;
  float ratio;
};

int queue_errors;
const char *const queue_version = "1.2";
static unsigned long pushes;
static __thread int last_id;

static int twice(int x) {
  return x * 2;
}

// A comment before a function.

int queue_push(queue_t *q, struct item *it) {
  static int calls;
  calls++;
  if (q->len >= q->cap) {
    int missing = (int)(q->len - q->cap) + 1;
    queue_errors += missing;
    return -missing;
  }
  it->next = NULL;
  if (q->tail != NULL)
    q->tail->next = it;
  else
    q->head = it;
  q->tail = it;
  q->len++;
  pushes++;
  last_id = it->id;
  it->delta = clamp(it->id, -100, 100);
  return twice(calls);
}

struct item *queue_pop(queue_t *q) {
  struct item *it = q->head;

  if (it == NULL)
    return NULL;
  q->head = it->next;
  if (q->head == NULL)
    q->tail = NULL;
  q->len--;
  return it;
}

long queue_sum(const queue_t *q, int scale) {
  long total = 0;
  for (const struct item *it = q->head; it != NULL; it = it->next) {
    int total_of_item = clamp(it->id, 0, 1000);
    for (int i = 0; i < 3; i++) {
      int scale = q->grid[i][i];
      total += total_of_item * scale;
    }
    total += scale + clamp(it->delta, -5, 5);
  }
  if (total > 1000000) {
    abort();
  }
  return total;
}

__attribute__((noinline)) int queue_secret(struct opaque *o) {
  return o->hidden + (int)o->ratio;
}
