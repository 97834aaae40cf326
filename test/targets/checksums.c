// Many small functions of different kinds, one checksum each: the output changes when a register or flag is spoiled.

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Executable room inside the program, for code that tests put there; the linker can be told to put the second far away. */
__asm__(".pushsection .fp_room, \"ax\", @progbits\n.skip 0x400000, 0xcc\n.popsection");
__asm__(".pushsection .fp_far, \"ax\", @progbits\n.skip 0x400000, 0xcc\n.popsection");

#define STATIC static __attribute__((noinline))

static uint64_t seed = 0x243f6a8885a308d3u;
STATIC uint64_t next(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

/* Leaf functions that a caller in the same file knows: at -O2 it keeps values in registers that these do not touch. */
STATIC uint64_t mix(uint64_t a, uint64_t b) { return (a ^ (b >> 29)) * 0x9e3779b97f4a7c15u; }
STATIC int bits_of(uint64_t x) {
  int n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}
STATIC uint64_t keeps_in_call_clobbered(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  uint64_t sum = 0;
  for (int i = 0; i < 6; i++) {
    sum += mix(a + i, b) ^ c;
    sum += bits_of(d ^ sum) + e * f;
    c += a ^ e;
  }
  return sum + a + b + c + d + e + f;
}

STATIC uint64_t switches(const uint8_t *code, size_t size) {
  uint64_t x = 1;
  for (size_t i = 0; i < size; i++) {
    switch (code[i] & 15) {
      case 0: x += 3; break;
      case 1: x ^= x << 5; break;
      case 2: x -= code[i]; break;
      case 3: x = mix(x, i); break;
      case 4: x = x << 7 | x >> 57; break;
      case 5: x *= 31; break;
      case 6: x = x / 3 + x % 7; break;
      case 7: x = ~x; break;
      case 9: x += (uint64_t)bits_of(x); break;
      case 10: x ^= (uint64_t)code[i] << 40; break;
      case 12: x = x & 1 ? x * 3 + 1 : x / 2; break;
      default: x++;
    }
  }
  return x;
}

STATIC uint64_t computed_goto(const uint8_t *code, size_t size) {
  static const void *const to[] = {&&add, &&shift, &&mixed, &&flip};
  uint64_t x = 7;
  size_t i = 0;
#define GO if (i == size) return x; goto *to[code[i++] & 3]
  GO;
add: x += code[i - 1]; GO;
shift: x = x << 3 | x >> 61; GO;
mixed: x = mix(x, i); GO;
flip: x = -x; GO;
}

STATIC uint64_t narrow(const uint8_t *bytes, size_t size) {
  uint8_t a = 1, b = 0;
  int16_t c = -5;
  signed char d = 3;
  for (size_t i = 0; i < size; i++) {
    a += bytes[i];
    b += a;
    c = (int16_t)(c * 3 + b);
    d = (signed char)(d ^ (c >> 3));
    if (d < 0) a ^= 0x55;
  }
  return (uint64_t)a | (uint64_t)b << 8 | (uint64_t)(uint16_t)c << 16 | (uint64_t)(uint8_t)d << 32;
}

STATIC uint64_t carries(const uint64_t *a, const uint64_t *b, uint64_t *sum, size_t size) {
  unsigned char carry = 0;
  uint64_t all = 0;
  for (size_t i = 0; i < size; i++) {
    uint64_t t = a[i] + carry;
    unsigned char first = t < a[i];
    sum[i] = t + b[i];
    carry = first | (sum[i] < t);
    all ^= sum[i] << (i & 31) | sum[i] >> (64 - (i & 31) - 1);
  }
  return all + carry;
}

STATIC uint64_t flags_in_assembly(uint64_t a, uint64_t b) {
  uint64_t low = a, high = b, out;
  __asm__("add %2, %0\n\tmov %3, %1\n\tadc %1, %1\n\tsbb %3, %1\n\tsetp %b3\n\tlea 5(%1), %1\n\tadc $0, %1"
          : "+r"(low), "=&r"(out), "+r"(high), "+r"(a) : : "cc");
  __asm__("cmp %1, %0\n\tmov %1, %0\n\tcmovb %2, %0\n\tjnc 1f\n\tinc %0\n1:\tseto %b1" : "+r"(out), "+r"(low) : "r"(high) : "cc");
  return low ^ out ^ high ^ a;
}

STATIC uint64_t copies(uint8_t *to, const uint8_t *from, size_t size) {
  void *d = to;
  const void *s = from;
  size_t n = size;
  __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
  uint64_t sum = n + (uint64_t)((uint8_t *)d - to);
  for (size_t i = 0; i < size; i++) sum = sum * 131 + to[i];
  return sum;
}

STATIC uint64_t shifts(uint64_t x, unsigned by) {
  uint64_t r = x;
  for (unsigned i = 0; i < 20; i++) {
    r ^= r << ((by + i) & 63);
    r = r >> (i & 63) | r << (-i & 63);
    if ((int64_t)r < 0) r ^= x;
    by += r & 3;
  }
  return r;
}

STATIC uint64_t divides(uint64_t a, uint32_t b, int c) {
  int64_t s = (int64_t)(a >> 3);
  return a / (b | 1) + a % (b | 1) + (uint64_t)(s / (c | 1)) + (uint64_t)(s % (c | 1)) + (uint64_t)((__int128)s * c >> 64);
}

STATIC uint64_t red_zone(uint64_t a, uint64_t b) {
  volatile uint64_t box[8];
  for (int i = 0; i < 8; i++) box[i] = a * (uint64_t)i + b;
  uint64_t sum = 0;
  for (int i = 7; i >= 0; i--) sum = sum * 33 ^ box[(i * 5) & 7];
  return sum;
}

STATIC uint64_t recursive(unsigned n, uint64_t x) {
  return n < 2 ? x : recursive(n - 1, x * 3 + n) ^ recursive(n - 2, x >> 1);
}

STATIC uint64_t odd(unsigned n, uint64_t x);
STATIC uint64_t even(unsigned n, uint64_t x) { return n == 0 ? x : odd(n - 1, x * 5); }
STATIC uint64_t odd(unsigned n, uint64_t x) { return n == 0 ? ~x : even(n - 1, x + 9); }

STATIC double floats(const uint64_t *a, size_t size) {
  double sum = 0, product = 1;
  for (size_t i = 0; i < size; i++) {
    double v = (double)(a[i] >> 40) / 1024.0;
    sum += v > 100 ? v : -v;
    product = product * 0.5 + v;
    if (sum > product) sum -= product;
  }
  return sum + product;
}

STATIC int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}
STATIC uint64_t sorts(uint64_t *a, size_t size) {
  uint64_t sum = 0;
  qsort(a, size, sizeof *a, by_value);
  for (size_t i = 0; i < size; i++) sum = sum * 7 + a[i];
  for (size_t low = 0, high = size; low < high;) {
    size_t middle = (low + high) / 2;
    if (a[middle] < 0x8000000000000000u) low = middle + 1; else high = middle;
    sum += middle;
  }
  return sum;
}

STATIC uint64_t variadic(int count, ...) {
  va_list list;
  va_start(list, count);
  uint64_t sum = 0;
  for (int i = 0; i < count; i++) sum = sum * 11 + va_arg(list, uint64_t);
  va_end(list);
  return sum;
}

typedef struct { uint64_t a, b, c; uint8_t d; } Record;
STATIC Record change(Record r, int n) {
  r.a += (uint64_t)n;
  r.b ^= r.a;
  r.c = r.a < r.b ? r.c + 1 : r.c * 3;
  r.d = (uint8_t)(r.d << 1 | (r.c & 1));
  return r;
}

static jmp_buf home;
STATIC uint64_t jumps(uint64_t x) {
  volatile uint64_t kept = x;
  int way = setjmp(home);
  if (way < 3) {
    kept = kept * 17 + (uint64_t)way;
    longjmp(home, way + 1);
  }
  return kept;
}

STATIC uint64_t atomics(uint64_t x) {
  static uint64_t cell;
  __atomic_fetch_add(&cell, x, __ATOMIC_SEQ_CST);
  uint64_t seen = __atomic_load_n(&cell, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&cell, &seen, mix(seen, x), 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
  return __atomic_exchange_n(&cell, x ^ seen, __ATOMIC_SEQ_CST);
}

static __thread uint64_t local = 5;
STATIC uint64_t thread_local_and_stack(size_t n) {
  uint8_t *room = __builtin_alloca(n);
  for (size_t i = 0; i < n; i++) room[i] = (uint8_t)(i * 7 + local);
  for (size_t i = 0; i < n; i++) local = local * 13 + room[n - 1 - i];
  return local;
}

STATIC uint64_t text(const char *s) {
  uint64_t hash = 5381;
  size_t words = 0;
  for (const char *p = s; *p; p++) {
    if (*p == ' ') words++;
    else if (*p >= 'a' && *p <= 'z') hash = hash * 33 ^ (uint64_t)(*p - 'a');
    else hash += (uint64_t)*p;
  }
  return hash + words + strlen(s) + (uint64_t)(strchr(s, 'q') - s);
}

static void show(const char *name, uint64_t value) { printf("%s %016llx\n", name, (unsigned long long)value); }

int main(void) {
  static uint8_t bytes[512], copy[512];
  static uint64_t a[128], b[128], c[128];
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)next();
    for (size_t i = 0; i < 128; i++) a[i] = next(), b[i] = next();
    show("keeps", keeps_in_call_clobbered(next(), next(), next(), next(), next(), next()));
    show("switches", switches(bytes, sizeof bytes));
    show("computed_goto", computed_goto(bytes, sizeof bytes));
    show("narrow", narrow(bytes, sizeof bytes));
    show("carries", carries(a, b, c, 128));
    for (int i = 0; i < 8; i++) show("flags", flags_in_assembly(next() << (i & 3), i & 1 ? next() : ~0ull));
    show("copies", copies(copy, bytes, (size_t)(round * 100)));
    show("shifts", shifts(next(), (unsigned)round));
    show("divides", divides(next(), (uint32_t)next(), (int)next()));
    show("red_zone", red_zone(next(), next()));
    show("recursive", recursive(12, next()));
    show("even", even(9 + (unsigned)round, next()));
    printf("floats %.6f\n", floats(a, 128));
    show("sorts", sorts(c, 128));
    show("variadic", variadic(8, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]));
    Record r = {a[0], a[1], a[2], 1};
    for (int i = 0; i < 20; i++) r = change(r, i * round);
    show("records", r.a ^ r.b ^ r.c ^ r.d);
    show("jumps", jumps(next()));
    show("atomics", atomics(next()));
    show("thread_local", thread_local_and_stack(64));
    show("text", text("the quick brown fox jumps over the lazy dog 1234"));
  }
  return 0;
}
