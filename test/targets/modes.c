// One small behaviour per mode, named by the first argument.
#include "target.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/wait.h>

static atomic_int traps;

static void on_trap(int number) { (void)number, traps++; }

static void *report_after_leader(void *unused) {
  usleep(20000);
  say("ready");
  wait_for_finish();
  exit(7);
  return unused;
}

int main(int argc, char **argv) {
  die_with_parent();
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "wait") == 0) {
    say("ready");
    wait_for_finish();
  } else if (strcmp(mode, "exit") == 0) {
    say("ready");
    wait_for_finish();
    return 3;
  } else if (strcmp(mode, "abort") == 0) {
    say("ready");
    wait_for_finish();
    raise(SIGSEGV);
  } else if (strcmp(mode, "exec") == 0) {
    say("ready");
    wait_for_finish();
    execl(argv[0], argv[0], "wait", NULL);
  } else if (strcmp(mode, "fork") == 0) {
    say("ready");
    wait_for_finish();
    int status;
    pid_t child = fork();
    if (child == 0) _exit(5);
    waitpid(child, &status, 0);
    child = vfork();
    if (child == 0) _exit(6);
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  } else if (strcmp(mode, "vfork") == 0) {
    // The parent sleeps in the kernel, deaf to all but SIGKILL, until its child is done.
    say("ready");
    if (vfork() == 0) {
      wait_for_finish();
      _exit(0);
    }
    return 4;
  } else if (strcmp(mode, "leaderless") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, report_after_leader, NULL);
    pthread_exit(NULL);
  } else if (strcmp(mode, "undumpable") == 0) {
    prctl(PR_SET_DUMPABLE, 0);
    say("ready");
    wait_for_finish();
  } else if (strcmp(mode, "zombie") == 0) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    usleep(20000);
    printf("ready %d\n", child);
    fflush(stdout);
    wait_for_finish();
  } else if (strcmp(mode, "seccomp") == 0) {
    // Kills for memfd_create, as a strict sandbox would.
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    say("ready");
    wait_for_finish();
  } else if (strcmp(mode, "traps") == 0) {
    signal(SIGTRAP, on_trap);
    say("ready");
    for (char byte; read(0, &byte, 1) == 1 && byte != '\n';) {
      // The time of the trap, for whoever measures how long the news takes.
      struct timespec t;
      clock_gettime(CLOCK_MONOTONIC, &t);
      __asm__ volatile("int3");
      printf("%lld\n", t.tv_sec * 1000000000LL + t.tv_nsec);
      fflush(stdout);
    }
    printf("%d\n", traps);
  }
  return 0;
}
