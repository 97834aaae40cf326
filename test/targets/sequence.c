// Two threads each add to a counter in a restartable sequence (rseq), which must never be half done and never done twice.
#include "target.h"
#include <stddef.h>
#include <linux/rseq.h>
#include <sys/rseq.h>

static atomic_int finish;
static atomic_long aborts, added;

struct slot {
  long counter;
} __attribute__((aligned(64)));

static struct rseq *area(void) { return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset); }

// Spins inside the sequence, so that most stops fall into it, and ends with the one store that commits.
static void add_one(struct slot *slot) {
  for (;;) {
    long next = slot->counter + 1;
    int aborted = 0;
    __asm__ volatile(
        ".pushsection __rseq_cs, \"aw\"\n .balign 32\n"
        "3: .long 0, 0\n .quad 1f, 2f - 1f, 4f\n .popsection\n"
        "lea 3b(%%rip), %%rax\n mov %%rax, %[pointer]\n"
        "1: mov $200000, %%ecx\n 5: dec %%ecx\n jnz 5b\n"
        "mov %[next], %[counter]\n 2:\n"
        ".pushsection .text.unlikely, \"ax\"\n .byte 0x0f, 0xb9, 0x3d\n .long 0x53053053\n"
        "4: movl $1, %[aborted]\n jmp 6f\n .popsection\n 6:\n"
        : [aborted] "+m"(aborted), [counter] "+m"(slot->counter), [pointer] "=m"(area()->rseq_cs)
        : [next] "r"(next)
        : "rax", "rcx", "memory", "cc");
    if (!aborted) return;
    aborts++;
  }
}

static void *worker(void *slot) {
  long count = 0;
  while (!finish) add_one(slot), count++;
  added += count;
  return NULL;
}

int main(void) {
  die_with_parent();
  if (__rseq_size == 0) {
    say("no rseq");
    return 0;
  }
  static struct slot slots[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, worker, &slots[i]);
  say("ready");
  wait_for_finish();
  finish = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  printf("{\"counted\":%ld,\"added\":%ld,\"aborts\":%ld}\n", slots[0].counter + slots[1].counter, added, aborts);
  return 0;
}
