// Sends a process real-time signals with the values 1 to n, by turns to the process and to its main thread.
#include "target.h"

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  die_with_parent();
  pid_t pid = atoi(argv[1]);
  int count = atoi(argv[2]);
  for (int i = 1; i <= count; i++) {
    siginfo_t info = {.si_signo = SIGRTMIN + 1, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_value.sival_int = i;
    // EAGAIN: the queue is full, which is the sender's problem and not a loss.
    while ((i % 2 ? syscall(SYS_rt_sigqueueinfo, pid, SIGRTMIN + 1, &info)
                  : syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGRTMIN + 1, &info)) != 0) {
      if (errno != EAGAIN) return 1;
      usleep(1000);
    }
    if (i % 10 == 0) usleep(1000);
  }
  return 0;
}
