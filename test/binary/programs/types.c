// Types of every kind that C has, and all those of a number of system headers (-fno-eliminate-unused-debug-types).
#include <arpa/inet.h>
#include <complex.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/input.h>
#include <linux/perf_event.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/ip.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <sys/user.h>
#include <termios.h>
#include <time.h>

struct nested {
  char first;
  struct {
    short second;
    struct inner {
      long third;
      char tail;
    } named;
    union {
      float as_float;
      unsigned as_bits;
    };
  } holder;
  struct {
    int promoted;
    char also;
  };
  struct inner array_of[3];
};

struct bits {
  unsigned one : 1;
  int two : 2;
  unsigned long long : 0;
  unsigned long long wide : 40, rest : 24;
  signed char small : 3;
  bool flag : 1;
  uint16_t half : 9;
  short plain;
  int64_t across : 33;
  enum { A_LITTLE = 1, MORE } choice : 4;
};

struct __attribute__((packed)) packed {
  char c;
  int i;
  unsigned x : 3;
  unsigned y : 7;
  double d;
  unsigned long long z : 50;
};

struct aligned {
  char c;
  alignas(64) int i;
};

union mixed {
  char bytes[16];
  uint64_t words[2];
  struct bits bits;
  unsigned low : 4;
  long double extended;
  double complex pair;
};

enum plain_enum { ZERO, ONE, TWO, LAST = 100 };
enum negative { MINUS = -5, PLUS = 5 };
enum large { BIG = 0x80000000u };
enum huge { HUGE_ONE = 0x7fffffffffffffffll, HUGE_MINUS = -1 };

typedef struct node node;
typedef node *node_pointer;
typedef int (*callback)(const node *, void *, ...);
typedef callback callback_table[4];
typedef int matrix[3][5];
typedef const volatile char *const *strings;
struct node {
  node *next, **link;
  node_pointer const other;
  callback call;
  callback_table calls;
  matrix grid, *grids;
  strings names;
  struct undefined_anywhere *opaque;
  _Atomic int counter;
  char *restrict only;
  int (*array_pointer)[7];
  int *pointer_array[7];
  double (*(*nested_function)(char (*)[3]))(float);
  unsigned __int128 wide;
  char flexible[];
};

typedef struct {
  int vla_like[0];
  char end;
} untagged;

struct node_holder {
  void (*(*handler)(int))(int);
  untagged anonymous;
  enum large large;
  enum negative negative;
};

int main(int argc, char **argv) {
  typedef struct { int only_here; } local_type;
  local_type here = {argc};
  struct local_tag { char a, b; } there = {0};
  return here.only_here + there.a;
}
