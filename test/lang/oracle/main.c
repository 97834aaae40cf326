/*
 * Runs compiled expressions for real, and the same expressions as gcc compiles them. Prints its load bias, reads the name of
 * a file with machine code, maps it where it says, and for each set of values prints what both made of every expression.
 */
#define _GNU_SOURCE
#include "oracle.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#define DEFINE_GLOBAL(type, name) type name;
GLOBALS(DEFINE_GLOBAL)
volatile unsigned long given[64];
int numbers[8];
struct item items[4];
struct odd odds[5];
int grid[3][4];
char letters[8];

struct entry {
  unsigned long code, scratch;
};
struct fault {
  unsigned long at, resume;
};
struct result {
  unsigned long value, status;
};
struct header {
  unsigned long base, size, count, entries, results, fault_count, faults, sets, values;
};

static struct header *header;
static struct entry *entries;
static struct result *results;
static struct fault *faults;

/* Made from the expressions. */
extern const int oracle_count;
extern unsigned char oracle_size[], oracle_signed[];
void oracle_value(int which);

unsigned long oracle_result;
static sigjmp_buf oracle_escape;
static volatile int in_oracle;

/* The state of run_all, which has no registers of its own. */
unsigned long saved[16], after[16], index_now, code_now;

__asm__(".text\n"
        ".globl run_all\n"
        "run_all:\n"
        "  mov %rax, saved(%rip)\n  mov %rcx, saved+8(%rip)\n  mov %rdx, saved+16(%rip)\n  mov %rbx, saved+24(%rip)\n"
        "  mov %rsp, saved+32(%rip)\n  mov %rbp, saved+40(%rip)\n  mov %rsi, saved+48(%rip)\n  mov %rdi, saved+56(%rip)\n"
        "  mov %r8, saved+64(%rip)\n  mov %r9, saved+72(%rip)\n  mov %r10, saved+80(%rip)\n  mov %r11, saved+88(%rip)\n"
        "  mov %r12, saved+96(%rip)\n  mov %r13, saved+104(%rip)\n  mov %r14, saved+112(%rip)\n  mov %r15, saved+120(%rip)\n"
        "  movq $-1, index_now(%rip)\n"
        "1:\n"
        "  mov saved+32(%rip), %rbx\n  mov %rbx, %rsp\n  and $-16, %rsp\n  cld\n"
        "  call next_code\n"
        "  mov %rbx, %rsp\n"
        "  test %rax, %rax\n"
        "  mov saved+8(%rip), %rcx\n  mov saved+16(%rip), %rdx\n  mov saved+24(%rip), %rbx\n"
        "  mov saved+40(%rip), %rbp\n  mov saved+48(%rip), %rsi\n  mov saved+56(%rip), %rdi\n"
        "  mov saved+64(%rip), %r8\n  mov saved+72(%rip), %r9\n  mov saved+80(%rip), %r10\n  mov saved+88(%rip), %r11\n"
        "  mov saved+96(%rip), %r12\n  mov saved+104(%rip), %r13\n  mov saved+112(%rip), %r14\n  mov saved+120(%rip), %r15\n"
        "  mov saved(%rip), %rax\n"
        "  jz 2f\n"
        "  call *code_now(%rip)\n"
        "  mov %rax, after(%rip)\n  mov %rcx, after+8(%rip)\n  mov %rdx, after+16(%rip)\n  mov %rbx, after+24(%rip)\n"
        "  mov %rsp, after+32(%rip)\n  mov %rbp, after+40(%rip)\n  mov %rsi, after+48(%rip)\n  mov %rdi, after+56(%rip)\n"
        "  mov %r8, after+64(%rip)\n  mov %r9, after+72(%rip)\n  mov %r10, after+80(%rip)\n  mov %r11, after+88(%rip)\n"
        "  mov %r12, after+96(%rip)\n  mov %r13, after+104(%rip)\n  mov %r14, after+112(%rip)\n  mov %r15, after+120(%rip)\n"
        "  jmp 1b\n"
        "2: ret\n");

/* Checks what the last piece of code left behind, and says whether there is another. */
unsigned long next_code(void) {
  if (index_now != -1UL) {
    for (int number = 0; number < 16; number++) {
      if (after[number] == saved[number] || (entries[index_now].scratch >> number & 1)) continue;
      printf("damaged %lu register %d\n", index_now, number);
    }
  }
  if (++index_now == header->count) return 0;
  code_now = entries[index_now].code;
  return 1;
}

void stage(void);

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)info;
  if (in_oracle) siglongjmp(oracle_escape, 1);
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  for (unsigned long which = 0; number == SIGSEGV && which < header->fault_count; which++) {
    if (faults[which].at != (unsigned long)registers[REG_RIP]) continue;
    registers[REG_RIP] = (greg_t)faults[which].resume;
    return;
  }
  printf("signal %d in expression %lu at %llx\n", number, index_now, registers[REG_RIP]);
  fflush(stdout);
  _exit(1);
}

/* The values of one set: scalars and globals as given, pointers into the arrays. */
static void prepare(const unsigned long *values) {
  int at = 0;
  for (int each = 0; each < number_of_scalars; each++) given[at++] = *values++;
#define GIVE_GLOBAL(type, name) name = (type)*values++;
  GLOBALS(GIVE_GLOBAL)
  for (int each = 0; each < 8; each++) numbers[each] = (int)*values++;
  for (int each = 0; each < 8; each++) letters[each] = (char)*values++;
  for (int each = 0; each < 12; each++) grid[each / 4][each % 4] = (int)*values++;
  memset(items, 0, sizeof items);
  for (int each = 0; each < 4; each++) {
    struct item *item = &items[each];
    item->tag = (char)*values++, item->count = (short)*values++, item->id = (int)*values++, item->total = (long)*values++;
    for (int which = 0; which < 4; which++) item->values[which] = (int)*values++;
    unsigned long bits = *values++;
    item->flag = bits, item->small = bits >> 1, item->level = bits >> 4, item->wide = bits >> 9, item->top = bits >> 26;
    item->full = bits >> 20, item->yes = bits >> 60 & 1;
    item->whole = (unsigned)*values++, item->color = (enum color) * values++;
    item->point.x = (unsigned short)*values, item->point.y = (unsigned short)(*values++ >> 16);
    item->next = &items[(each + 1) % 4];
  }
  items[3].next = NULL;
  given[at++] = (unsigned long)&items[0];
  given[at++] = (unsigned long)&items[2];
  given[at++] = (unsigned long)&numbers[3];
  given[at++] = (unsigned long)&letters[2];
  given[at++] = (unsigned long)&odds[1];
  given[at++] = 0;
  given[at++] = (unsigned long)&numbers[1];
}

static void fail(const char *what) {
  perror(what);
  exit(2);
}

extern const char __executable_start[];

int main(int argc, char **argv) {
  (void)argv;
  char name[4096];
  printf("start %p\n", (const void *)__executable_start);
  fflush(stdout);
  if (fgets(name, sizeof name, stdin) == NULL) return 2;
  name[strcspn(name, "\n")] = 0;
  int file = open(name, O_RDWR);
  struct header first;
  if (file < 0 || read(file, &first, sizeof first) != sizeof first) fail(name);
  header = mmap((void *)first.base, first.size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0);
  if (header != (void *)first.base) fail("mmap");
  char *base = (char *)header;
  entries = (struct entry *)(base + header->entries), results = (struct result *)(base + header->results);
  faults = (struct fault *)(base + header->faults);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, NULL), sigaction(SIGFPE, &action, NULL), sigaction(SIGILL, &action, NULL);
  sigaction(SIGTRAP, &action, NULL), sigaction(SIGBUS, &action, NULL);
  const unsigned long *values = (const unsigned long *)(base + header->values);
  for (unsigned long set = 0; set < header->sets; set++, values += 256) {
    prepare(values);
    stage();
    for (int which = 0; which < oracle_count; which++) {
      unsigned long status = 1;
      in_oracle = 1;
      oracle_result = 0;
      if (sigsetjmp(oracle_escape, 0) == 0) oracle_value(which), status = 0;
      in_oracle = 0;
      unsigned long expected = entries[which].scratch >> 63 ? oracle_result != 0 : oracle_result;
      if (results[which].status == status && (status || results[which].value == expected)) continue;
      printf("differs %lu %d ours %lx %lu gcc %lx %lu\n", set, which, results[which].value, results[which].status, oracle_result, status);
    }
    printf("done %lu\n", set);
    /* With an argument: what we made of the first set, for others to compare. */
    for (int which = 0; argc > 1 && set == 0 && which < oracle_count; which++) {
      printf("value %lx %lu\n", results[which].value, results[which].status);
    }
  }
  for (int which = 0; which < oracle_count; which++) printf("type %d %d\n", oracle_size[which], oracle_signed[which]);
  return 0;
}
