// A queue with a small inline function, included by two units so that each has its own copies.
#ifndef QUEUE_H
#define QUEUE_H
#include <stddef.h>
#include <stdint.h>

enum priority { LOW = -1, NORMAL, HIGH = 10 };

struct opaque;

struct item {
  int id;
  enum priority priority;
  struct item *next;
  union {
    double weight;
    uint64_t bits;
    char name[8];
  } payload;
  unsigned ready : 1;
  unsigned kind : 5;
  int delta : 9;
  unsigned long wide : 40;
};

typedef struct queue {
  struct item *head, *tail;
  size_t len, cap;
  int (*compare)(const struct item *, const struct item *);
  struct opaque *secret;
  short grid[3][4];
} queue_t;

extern int queue_errors;
extern const char *const queue_version;

int queue_push(queue_t *q, struct item *it);
struct item *queue_pop(queue_t *q);
long queue_sum(const queue_t *q, int scale);

static inline int clamp(int value, int low, int high) {
  if (value < low)
    return low;
  if (value > high)
    return high;
  return value;
}
#endif
