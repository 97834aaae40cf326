// The demo's program: a few threads that count, slowly enough to watch.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile long step = 1;
static volatile long counters[3];

static void *count(void *slot) {
  volatile long *counter = slot;
  for (;;) {
    *counter += step;
    usleep(1000);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, count, (void *)&counters[i]);
  printf("%p %p\n", (void *)&step, (void *)counters);
  fflush(stdout);
  pthread_join(threads[0], NULL);
  return 0;
}
