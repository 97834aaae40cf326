// Many threads, some of them making and joining others all the time; counts its work, its errors and its signals.
#include "target.h"

static atomic_long rounds, errors, created, signals, signal_sum;
static atomic_int finish;

static void on_signal(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  signals++;
  signal_sum += info->si_value.sival_int;
}

// A sum whose value is known, computed the long way; a lost or changed register shows.
static void work(void) {
  volatile uint64_t seed = 1000;
  uint64_t sum = 0, xor = 0;
  double product = 1;
  for (uint64_t i = 1; i <= seed; i++) sum += i, xor ^= i * i, product *= 1.0 + 1.0 / i;
  if (sum != 500500 || xor != 0x513d0 || product < 1000.999 || product > 1001.001) errors++;
  rounds++;
}

static void *work_once(void *unused) {
  work();
  return unused;
}

static void *worker(void *churns) {
  while (!finish) {
    work();
    if (!churns) continue;
    pthread_t thread;
    if (pthread_create(&thread, NULL, work_once, NULL) != 0) {
      errors++;
      continue;
    }
    pthread_join(thread, NULL);
    created++;
  }
  return NULL;
}

static void *sleeper(void *unused) {
  while (!finish) usleep(100000);
  return unused;
}

// threads [workers [of which make others [and as many more that sleep]]]
int main(int argc, char **argv) {
  die_with_parent();
  int count = argc > 1 ? atoi(argv[1]) : 8;
  int churners = argc > 2 ? atoi(argv[2]) : count / 2;
  int sleepers = argc > 3 ? atoi(argv[3]) : 0;
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGRTMIN + 1, &action, NULL);
  int all = count + sleepers;
  pthread_t threads[all + 1];
  for (int i = 0; i < all; i++) pthread_create(&threads[i], NULL, i < count ? worker : sleeper, i < churners ? threads : NULL);
  say("ready");
  wait_for_finish();
  finish = 1;
  for (int i = 0; i < all; i++) pthread_join(threads[i], NULL);
  printf("{\"rounds\":%ld,\"errors\":%ld,\"created\":%ld,\"signals\":%ld,\"signalSum\":%ld}\n", rounds, errors, created, signals,
         signal_sum);
  return 0;
}
