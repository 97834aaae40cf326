// What runs inside the target besides trampolines: the handlers that make our traps and our faults invisible.
//
// It is compiled into a section of the addon, copied from there into the target, and runs there without a C library: no data
// of its own, no relocation, no call out of the section, general registers only. What it needs to know it finds in the
// channel, whose address fastprobe writes into `fastprobe_runtime_channel` before it maps the code.
//
// Handlers may interrupt each other and themselves and run in any number of threads: nothing here takes a lock.

#include <stddef.h>
#include <stdint.h>

#include "channel.h"

#define RUNTIME __attribute__((section("fastprobe_runtime"), used, noinline))
#define INLINE static inline __attribute__((always_inline))
#define HIDDEN __attribute__((visibility("hidden")))

// --- the kernel's structures, without its headers

enum { SIGTRAP = 5, SIGBUS = 7, SIGSEGV = 11 };
enum { SYS_rt_sigaction = 13, SYS_getpid = 39, SYS_gettid = 186, SYS_rt_tgsigqueueinfo = 297 };
enum { SA_SIGINFO = 4, SA_RESTORER = 0x04000000, SA_ONSTACK = 0x08000000 };
#define SA_RESETHAND 0x80000000u
#define SIG_DFL 0
#define SIG_IGN 1
enum { SI_KERNEL = 0x80 };

struct action {
  uint64_t handler;
  uint64_t flags;
  uint64_t restorer;
  uint64_t mask;
};

struct signal_info {
  int signo, errno_, code;
};

struct context {
  uint64_t flags, link, stack[3];
  uint64_t r8_to_cx[15];
  uint64_t rsp, rip;
};

struct redirect {
  uint64_t address, target, count, counter;
};
_Static_assert(sizeof(struct redirect) == REDIRECT_SIZE, "channel.h");

// --- the addresses that fastprobe needs to know or to fill in; a symbol each, found by the addon

__asm__(
    ".pushsection fastprobe_runtime, \"ax\", @progbits\n"
    ".balign 8\n"
    ".globl fastprobe_runtime_channel, fastprobe_runtime_restorer\n"
    ".hidden fastprobe_runtime_channel, fastprobe_runtime_restorer\n"
    "fastprobe_runtime_channel: .quad 0\n"
    // Unwinders know a signal frame by these very bytes.
    ".balign 16\n"
    "nop\n"
    "fastprobe_runtime_restorer: mov $15, %rax\n"
    "syscall\n"
    ".popsection\n");

extern const HIDDEN uint64_t fastprobe_runtime_channel;

INLINE char *channel(void) {
  uint64_t address;
  // Not a C load: the compiler must not take the zero it was compiled with for granted.
  __asm__("mov fastprobe_runtime_channel(%%rip), %0" : "=r"(address));
  return (char *)address;
}

INLINE long syscall4(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  long result;
  register uint64_t r10 __asm__("r10") = d;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return result;
}

/// Our signals in the order in which the channel has them; -1 for one that is not ours.
INLINE int index_of(int signal) { return signal == SIGTRAP ? 0 : signal == SIGBUS ? 1 : signal == SIGSEGV ? 2 : -1; }

INLINE struct action *slot(int index, uint32_t number) {
  struct action *actions = (struct action *)(channel() + CHANNEL_ACTIONS);
  return &actions[index * ACTION_SLOTS + number % ACTION_SLOTS];
}

/// Code that returns from a handler and that stays when we go.
INLINE uint64_t restorer(void) { return *(uint64_t *)(channel() + CHANNEL_RESTORER); }

INLINE uint32_t *current(int index) { return (uint32_t *)(channel() + CHANNEL_CURRENT_ACTION) + index; }

/// Makes an action the current one of the target; returns the one before it. Slots are handed out in turn, so that a reader
/// never sees one half written.
INLINE struct action exchange(int index, struct action action) {
  const uint32_t number = __atomic_fetch_add((uint32_t *)(channel() + CHANNEL_NEXT_ACTION) + index, 1, __ATOMIC_ACQ_REL);
  *slot(index, number) = action;
  return *slot(index, __atomic_exchange_n(current(index), number, __ATOMIC_ACQ_REL));
}

// --- redirects

/// The entry for an address. Entries are only ever added, and removed ones keep their address, so that a thread that
/// trapped before a removal still finds where to go on.
INLINE struct redirect *find(uint64_t address) {
  struct redirect *table = (struct redirect *)(channel() + CHANNEL_REDIRECTS);
  // Fibonacci hashing, as src/channel/redirects.ts does it.
  uint32_t at = (uint32_t)((address * 0x9e3779b97f4a7c15u) >> 49);
  for (uint32_t step = 0; step < REDIRECT_SLOTS; step++, at = (at + 1) % REDIRECT_SLOTS) {
    const uint64_t found = __atomic_load_n(&table[at].address, __ATOMIC_ACQUIRE);
    if (found == address) return &table[at];
    if (found == 0) return NULL;
  }
  return NULL;
}

// --- the target's own actions

INLINE void install(int signal, const struct action *action) {
  syscall4(SYS_rt_sigaction, (uint64_t)signal, (uint64_t)action, 0, 8);
}

/// What the kernel does for a signal that nobody handles: for ours, the end of the process. The instruction that
/// faulted runs again and ends it with the right status and core; a signal that was sent is sent again.
INLINE void die(int signal, const struct signal_info *info) {
  const struct action none = {SIG_DFL, SA_RESTORER, restorer(), 0};
  install(signal, &none);
  // int3 has already been stepped over, and does not come again by itself.
  if (info->code <= 0 || signal == SIGTRAP) {
    const long pid = syscall4(SYS_getpid, 0, 0, 0, 0);
    const long tid = syscall4(SYS_gettid, 0, 0, 0, 0);
    syscall4(SYS_rt_tgsigqueueinfo, (uint64_t)pid, (uint64_t)tid, (uint64_t)signal, (uint64_t)info);
  }
}

/// Does what would have happened had we not been there.
INLINE void chain(int signal, const struct signal_info *info, struct context *context) {
  const int index = index_of(signal);
  const struct action action = *slot(index, __atomic_load_n(current(index), __ATOMIC_ACQUIRE));
  const int sent = info->code <= 0;
  if (action.handler == SIG_IGN && sent) return;
  // The kernel does not let a fault be ignored.
  if (action.handler == SIG_DFL || action.handler == SIG_IGN) {
    die(signal, info);
    return;
  }
  if (action.flags & SA_RESETHAND) {
    exchange(index, (struct action){SIG_DFL, action.flags, action.restorer, action.mask});
  }
  // Ours is installed with the flags and the mask of this action (fastprobe_runtime_sigaction), so that stack, mask and
  // restart are as its author asked.
  ((void (*)(int, const void *, void *))action.handler)(signal, info, context);
}

/// The handler of SIGTRAP, SIGBUS and SIGSEGV.
HIDDEN RUNTIME void fastprobe_runtime_handler(int signal, const struct signal_info *info, struct context *context) {
  // A trap leaves the address behind the int3; positive codes come from the processor, others were sent by someone.
  const int trap = signal == SIGTRAP;
  if (trap ? info->code == SI_KERNEL : info->code > 0) {
    struct redirect *redirect = find(context->rip - (trap ? 1 : 0));
    if (redirect != NULL) {
      __atomic_fetch_add(&redirect->count, 1, __ATOMIC_RELAXED);
      if (redirect->counter != 0) __atomic_fetch_add((uint64_t *)(channel() + redirect->counter), 1, __ATOMIC_RELAXED);
      context->rip = __atomic_load_n(&redirect->target, __ATOMIC_ACQUIRE);
      return;
    }
  }
  chain(signal, info, context);
}

// --- sigaction of the target's C library, which a trampoline of ours leads here for our three signals

/// struct sigaction as the C libraries of x86-64 have it.
struct user_action {
  uint64_t handler;
  uint64_t mask;
  uint64_t mask_rest[15];
  int flags;
  uint64_t restorer;
};

HIDDEN RUNTIME int fastprobe_runtime_sigaction(int signal, const struct user_action *wanted, struct user_action *old) {
  const int index = index_of(signal);
  struct action before;
  if (wanted != NULL) {
    struct action action = {wanted->handler, (uint32_t)wanted->flags | SA_RESTORER, restorer(), wanted->mask};
    before = exchange(index, action);
    uint64_t handler;
    __asm__("lea fastprobe_runtime_handler(%%rip), %0" : "=r"(handler));
    if (action.handler == SIG_DFL || action.handler == SIG_IGN) action.flags = SA_ONSTACK | SA_RESTORER, action.mask = 0;
    action.handler = handler;
    action.flags = (action.flags | SA_SIGINFO) & ~(uint64_t)SA_RESETHAND;
    install(signal, &action);
  } else {
    before = *slot(index, __atomic_load_n(current(index), __ATOMIC_ACQUIRE));
  }
  if (old != NULL) {
    old->handler = before.handler;
    old->mask = before.mask;
    for (int i = 0; i < 15; i++) ((volatile uint64_t *)old->mask_rest)[i] = 0;
    old->flags = (int)(before.flags & ~(uint64_t)SA_RESTORER);
    old->restorer = before.restorer;
  }
  return 0;
}
