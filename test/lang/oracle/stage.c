/* The function in whose frame the compiled expressions run. At `site` every register is the program's. */
#include "oracle.h"

/* Where the compiler can no longer know the value, so that it must say where it is. */
#define SETTLE(type, name) __asm__ volatile("" : "+g"(name));

__attribute__((noinline, noclone)) void stage(void) {
  LOCALS
  SCALARS(SETTLE)
  SETTLE(, p)
  SETTLE(, q)
  SETTLE(, pi)
  __asm__ volatile(".globl site\nsite:\n\tcall run_all\n"
                   ".globl site_end\nsite_end:\n"
                   :
                   :
                   : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  USED
}
