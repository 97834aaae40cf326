#include "queue.h"
#include <math.h>
#include <stdio.h>

typedef int (*operation)(int, int);
typedef volatile int *volatile_pointer;

static int twice(int x) {
  printf("twice %d\n", x);
  return x + x;
}

static int add(int a, int b) { return a + b; }
static int subtract(int a, int b) { return a - b; }

static const operation table[] = {add, subtract};
long double precise = 1.25L;
_Bool enabled = 1;
unsigned char flags[16];

__attribute__((noinline)) static int dispatch(int which, int a, int b) {
  switch (which) {
    case 0:
      return table[0](a, b);
    case 1:
      return table[1](a, b);
    case 2:
      return a * b;
    case 3:
      return b ? a / b : 0;
    case 4:
      a++;
      /* fall through */
    case 5:
      return twice(a) ^ b;
    default:
      break;
  }
  return -1;
}

__attribute__((noinline)) double mean(const double *values, unsigned count) {
  double sum = 0.0;
  unsigned i;
  for (i = 0; i < count; i++) {
    sum += values[i];
  }
  if (count == 0) return NAN;
  return sum / count;
}

__attribute__((noinline)) int deep(int n, volatile_pointer trace) {
  int local[4] = {n, n + 1, n + 2, n + 3};
  {
    int n = local[1];
    {
      int n = local[2] * 2;
      *trace += n;
    }
    *trace += n;
  }
  do {
    local[0]--;
    if (local[0] == 3) continue;
    *trace += local[0];
  } while (local[0] > 0);
  while (n > 10) n -= clamp(n, 1, 3);
  return local[0] + local[3] + n;
}

__attribute__((noinline)) int many(int a, long b, char c, short d, unsigned e, float f, double g, void *h, int i, int j) {
  return a + (int)b + c + d + (int)e + (int)f + (int)g + (h != NULL) + i + j;
}

int main(int argc, char **argv) {
  queue_t q = {.cap = 4, .grid = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}};
  struct item items[6];
  volatile int trace = 0;
  for (int i = 0; i < 6; i++) {
    items[i].id = i * argc;
    items[i].priority = i & 1 ? HIGH : LOW;
    if (queue_push(&q, &items[i]) < 0) printf("full at %d\n", i);
  }
  double values[] = {1.0, 2.0, 3.5};
  printf("%f %d %d\n", mean(values, 3), dispatch(argc, 4, 5), deep(argc, &trace));
  printf("%ld %s\n", queue_sum(&q, argc), argv[0]);
  printf("%d\n", many(argc, 2, 'c', 4, 5u, 6.0f, 7.0, &q, 9, 10));
  struct item *it;
  while ((it = queue_pop(&q)) != NULL) printf("item %d\n", it->id);
  return enabled ? flags[0] : (int)precise;
}
