// A program with uses of its own for SIGSEGV and SIGTRAP, beside a function whose probe faults or traps all the time.
#include "target.h"
#include <setjmp.h>
#include <ucontext.h>

static atomic_long faults, traps, errors, calls;
static sigjmp_buf back;
static volatile int *nowhere = NULL;

struct node {
  struct node *next;
  int id;
};

__attribute__((noinline)) int look(struct node *p, int i) {
  calls++;
  return p == NULL ? i : i + 1;  // LINE look
}

// Two bytes, and a jump to the next instruction: a probe here is a trap.
long count_down(int from);
__asm__(".globl count_down\n.type count_down, @function\ncount_down: mov %edi, %eax\n1: dec %eax\njnz 1b\nret\n.size count_down, . - count_down");

static void raise_trap(void) { __asm__ volatile("int3"); }

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  if (number != SIGSEGV || info->si_addr != nowhere) errors++;
  faults++;
  siglongjmp(back, 1);
}

static void on_trap(int number, siginfo_t *info, void *context) {
  ucontext_t *state = context;
  // Behind the int3, as without us.
  if (number != SIGTRAP || info->si_code != SI_KERNEL || ((uint8_t *)state->uc_mcontext.gregs[REG_RIP])[-1] != 0xcc) errors++;
  traps++;
}

static void install(int signal, void (*handler)(int, siginfo_t *, void *), void *expected_before) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO}, before, now;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGUSR1);
  if (sigaction(signal, &action, &before) != 0 || (void *)before.sa_sigaction != expected_before) errors++;
  if (sigaction(signal, NULL, &now) != 0 || now.sa_sigaction != handler || !(now.sa_flags & SA_SIGINFO) ||
      !sigismember(&now.sa_mask, SIGUSR1) || sigismember(&now.sa_mask, SIGUSR2)) errors++;
}

static void work(int rounds) {
  for (volatile int i = 0; i < rounds; i++) {
    if (look(NULL, i) != i) errors++;
    if (count_down(2) != 0) errors++;
    if (i % 10 == 0) {
      if (sigsetjmp(back, 1) == 0) *nowhere = 1;
      raise_trap();
    }
  }
}

int main(int argc, char **argv) {
  die_with_parent();
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "before") == 0) install(SIGSEGV, on_fault, SIG_DFL), install(SIGTRAP, on_trap, SIG_DFL);
  say("ready");
  wait_for_finish();
  if (strcmp(mode, "after") == 0) install(SIGSEGV, on_fault, SIG_DFL), install(SIGTRAP, on_trap, SIG_DFL);
  if (strcmp(mode, "fault") == 0) look(NULL, 1), *nowhere = 1;
  if (strcmp(mode, "raise") == 0) look(NULL, 1), raise(SIGSEGV);
  if (strcmp(mode, "trap") == 0) look(NULL, 1), (void)count_down(2), raise_trap();
  if (strcmp(mode, "ignore") == 0) signal(SIGSEGV, SIG_IGN), look(NULL, 1), raise(SIGSEGV);
  if (strcmp(mode, "once") == 0) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_RESETHAND}, now;
    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(back, 1) == 0) *nowhere = 1;
    look(NULL, 1);
    sigaction(SIGSEGV, NULL, &now);
    if (now.sa_handler != SIG_DFL) errors++;
    *nowhere = 1;
  }
  if (strcmp(mode, "before") == 0 || strcmp(mode, "after") == 0) work(2000);
  printf("{\"calls\":%ld,\"faults\":%ld,\"traps\":%ld,\"errors\":%ld}\n", calls, faults, traps, errors);
  fflush(stdout);
  wait_for_finish();
  // Whatever was put in is out again: the handlers must be the program's own, in the kernel too.
  if (strcmp(mode, "before") == 0 || strcmp(mode, "after") == 0) work(100);
  printf("{\"faults\":%ld,\"traps\":%ld,\"errors\":%ld}\n", faults, traps, errors);
  return 0;
}
