/* The types and variables over which expressions are tested; every function that has LOCALS has the same values. */
#include <stddef.h>
#include <stdint.h>

enum color { red, green, blue = 200, far = 70000 };
enum level { low = -3, middle = 0, high = 1000 };
typedef unsigned int word_t;
typedef struct item item_t;

struct item {
  char tag;
  short count;
  int id;
  long total;
  struct item *next;
  int values[4];
  unsigned flag : 1, small : 3;
  int level : 5, wide : 17;
  unsigned long top : 20;
  unsigned full : 32;
  _Bool yes : 1;
  union {
    unsigned whole;
    unsigned char bytes[4];
    struct {
      short first, second;
    };
  };
  enum color color;
  struct {
    unsigned short x, y;
  } point;
};

struct odd {
  char text[3];
};

/* Type, name. The values come from `given`, in this order. */
#define SCALARS(X)                                                                                                     \
  X(signed char, sc) X(unsigned char, uc) X(char, c) X(short, s) X(unsigned short, us) X(int, i) X(int, j)             \
  X(unsigned, u) X(word_t, w) X(long, l) X(unsigned long, ul) X(long long, ll) X(unsigned long long, ull)              \
  X(_Bool, b) X(enum color, color) X(enum level, level) X(size_t, n) X(int8_t, i8) X(uint16_t, u16)

#define GLOBALS(X)                                                                                                     \
  X(signed char, g_sc) X(unsigned char, g_uc) X(short, g_s) X(unsigned short, g_us) X(int, g_i) X(unsigned, g_u)       \
  X(long, g_l) X(unsigned long, g_ul) X(_Bool, g_b) X(enum color, g_color)

#define DECLARE_GLOBAL(type, name) extern type name;
GLOBALS(DECLARE_GLOBAL)

extern volatile unsigned long given[64];
extern int numbers[8];
extern struct item items[4];
extern struct odd odds[5];
extern int grid[3][4];
extern char letters[8];

enum { number_of_scalars = 0
#define COUNT(type, name) +1
                           SCALARS(COUNT) };

#define DECLARE_LOCAL(type, name) type name = (type)given[at++];
#define LOCALS                                                                                                         \
  int at = 0;                                                                                                          \
  SCALARS(DECLARE_LOCAL)                                                                                               \
  struct item thing = items[1];                                                                                        \
  int row[6] = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};                               \
  short table[2][3] = {{s, 2, 3}, {4, 5, us}};                                                                         \
  struct item *p = (struct item *)given[at++];                                                                         \
  item_t *q = (item_t *)given[at++];                                                                                   \
  int *pi = (int *)given[at++];                                                                                        \
  unsigned char *bytes = (unsigned char *)given[at++];                                                                 \
  struct odd *po = (struct odd *)given[at++];                                                                          \
  struct item *nil = (struct item *)given[at++];                                                                       \
  void *pv = (void *)given[at++];                                                                                      \
  int *inside = &row[2];

/* The variables are needed after this. */
#define USE(type, name) __asm__ volatile("" ::"g"(name));
#define USED                                                                                                           \
  SCALARS(USE)                                                                                                         \
  __asm__ volatile("" ::"g"(p), "g"(q), "g"(pi), "g"(bytes), "g"(po), "g"(nil), "g"(pv), "g"(inside));                 \
  __asm__ volatile("" ::"m"(thing), "m"(row), "m"(table));
