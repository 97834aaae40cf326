// Variables of many kinds in many places: registers, stack, pieces, constants, blocks that hide names, inlined copies.
#include <alloca.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct point {
  int x, y;
};
struct line {
  struct point from, to;
  const char *label;
};
struct pair {
  long first;
  double second;
};
struct flags {
  unsigned ready : 1, kind : 5;
  int delta : 9;
  unsigned long wide : 40;
};
union word {
  uint64_t whole;
  uint8_t bytes[8];
  float half;
};
enum mode { OFF = -1, ON, FAST = 9 };
typedef int (*combine)(int, int);

int counter = 3;
static long total;
static struct line segment = {{1, 2}, {3, 4}, "segment"};
double ratio = 0.5;
extern const char *const greeting;
const char *const greeting = "hello";
static int grid[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};

static __thread char thread_mark = 'm';
__thread long thread_calls __attribute__((aligned(32)));

static inline __attribute__((always_inline)) int square(int value) {
  int result = value * value;
  counter += result & 1;
  return result;
}

static inline __attribute__((always_inline)) int sum_of_squares(int a, int b) {
  int first = square(a);
  {
    int a = b + 1;
    total += a;
  }
  int second = square(b);
  return first + second;
}

static int add(int a, int b) { return a + b; }
static int times(int a, int b) { return a * b; }

__attribute__((noinline)) static struct pair split(struct pair in, float scale) {
  struct pair out = {in.first / 2, in.second * scale};
  total += out.first;
  return out;
}

__attribute__((noinline)) static int manhattan(struct point a, struct point b) {
  int dx = a.x > b.x ? a.x - b.x : b.x - a.x;
  int dy = a.y > b.y ? a.y - b.y : b.y - a.y;
  counter += dx;
  return dx + dy;
}

__attribute__((noinline)) static double average(const double *values, unsigned count, double start) {
  double sum = start;
  for (unsigned i = 0; i < count; i++) {
    double weighted = values[i] * ratio;
    sum += weighted;
  }
  return sum / (count ? count : 1);
}

__attribute__((noinline)) static int shadows(int n, volatile int *out) {
  static int calls;
  const int step = 7;
  int local[4] = {n, n + 1, n + 2, n + 3};
  calls++;
  for (int i = 0; i < 2; i++) {
    int n = local[i + 1];
    *out += n;
    {
      long n = (long)local[i] * step;
      *out += (int)n;
    }
    *out += n;
  }
  return local[0] + n + calls;
}

__attribute__((noinline)) static unsigned dynamic(unsigned length) {
  char on_stack[length + 1];
  char *more = alloca(length * 2);
  memset(on_stack, 'x', length);
  memset(more, 'y', length);
  on_stack[length] = 0;
  unsigned hash = 5381;
  for (char *at = on_stack; *at; at++) hash = hash * 33 + (unsigned char)*at;
  return hash + (unsigned char)more[0];
}

__attribute__((noinline)) static long pressure(long a, long b, long c, long d, long e, long f, long g, long h) {
  long p = a * b, q = c * d, r = e * f, s = g * h;
  long t = p + q, u = q + r, v = r + s, w = s + p;
  counter += (int)(t & 1);
  total += u;
  long x = t * u + v * w, y = (t ^ v) + (u ^ w);
  return x - y + p + q + r + s + a + b + c + d + e + f + g + h;
}

__attribute__((noinline)) static int recurse(int depth, char **names) {
  int before = counter;
  thread_calls += thread_mark++;
  if (depth == 0) return before;
  int inner = recurse(depth - 1, names);
  return inner + before + (names[0] != NULL);
}

int main(int argc, char **argv) {
  struct line line = {{argc, 2}, {10, 20}, "line"};
  struct line *pointer = &line, **to_pointer = &pointer;
  struct flags flags = {1, 17, -100, 0x123456789aul};
  union word word = {.whole = 0x3f80000041424344ull};
  enum mode mode = argc > 1 ? FAST : OFF;
  combine operations[2] = {add, times};
  volatile int out = 0;
  signed char small = (signed char)-argc;
  unsigned short medium = 65535;
  long double extended = 2.25L;
  float single = 1.5f * argc;
  _Bool yes = argc == 1;
  for (int i = 0; i < 2; i++) {
    combine chosen = operations[i];
    out += chosen(i + 3, grid[i][i + 1]);
  }
  struct pair halves = split((struct pair){argc * 11, 2.5}, single);
  double values[3] = {1.0, halves.second, 3.0};
  out += manhattan((*to_pointer)->from, segment.to);
  out += (int)average(values, 3, (double)argc);
  out += sum_of_squares(argc + 1, out & 7);
  out += shadows(argc + 4, &out);
  out += (int)dynamic(3u + (unsigned)argc);
  out += (int)pressure(argc, 2, 3, 4, 5, 6, 7, 8);
  out += recurse(2, argv);
  flags.delta += out & 3;
  word.bytes[0]++;
  printf("%d %s %d %u %d %f %d %Lf %d %f\n", out, line.label, flags.delta, word.bytes[0], mode, single, small, extended,
         medium + yes, halves.second);
  return 0;
}
