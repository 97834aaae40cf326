// Switches in the shapes that compilers make jump tables of.

#include <stdint.h>

#define CASES(op)                                                                                                       \
  case 0: op(3);  break;                                                                                                \
  case 1: op(11); break;                                                                                                \
  case 2: op(29); break;                                                                                                \
  case 3: op(31); break;                                                                                                \
  case 5: op(37); break;                                                                                                \
  case 6: op(53); break;                                                                                                \
  case 7: op(71); break;                                                                                                \
  case 9: op(97); break;

volatile uint64_t sink;
uint64_t step(uint64_t);

#define CALL(n) sink ^= step(x * n)
#define MIX(n) x = (x ^ (x >> n % 7)) * n + sink

uint64_t plain(int which, uint64_t x) { switch (which) { CASES(CALL) default: CALL(5); } return x; }
uint64_t narrow(uint8_t which, uint64_t x) { switch (which) { CASES(CALL) default: CALL(5); } return x; }
uint64_t narrow_signed(signed char which, uint64_t x) { switch (which) { CASES(CALL) default: CALL(5); } return x; }
uint64_t half(uint16_t which, uint64_t x) { switch (which) { CASES(CALL) default: CALL(5); } return x; }
uint64_t wide(uint64_t which, uint64_t x) { switch (which) { CASES(CALL) default: CALL(5); } return x; }
uint64_t wide_signed(int64_t which, uint64_t x) { switch (which) { CASES(CALL) default: CALL(5); } return x; }
uint64_t shifted(int which, uint64_t x) { switch (which - 1000) { CASES(CALL) default: CALL(5); } return x; }
uint64_t masked(unsigned which, uint64_t x) { 
  switch (which & 7) {
    case 0: CALL(3); break;
    case 1: CALL(5); break;
    case 2: CALL(7); break;
    case 3: CALL(9); break;
    case 4: CALL(11); break;
    case 5: CALL(13); break;
    case 6: CALL(17); break;
    case 7: CALL(19); break;
  }
  return x;
}
uint64_t without_default(unsigned which, uint64_t x) { switch (which) { CASES(MIX) default: __builtin_unreachable(); } return x; }
uint64_t through_memory(const int *which, uint64_t x) { switch (which[x & 3]) { CASES(CALL) } return x; }
uint64_t through_struct(const struct { long a; char kind; } *p, uint64_t x) { switch (p->kind) { CASES(CALL) } return x; }

uint64_t in_a_loop(const uint8_t *code, uint64_t x) {
  for (;; code++)
    switch (*code) { CASES(MIX) case 4: return x; default: MIX(13); }
}

uint64_t in_a_loop_with_calls(const uint8_t *code, uint64_t x) {
  for (;; code++)
    switch (*code) { CASES(CALL) case 4: return x; default: CALL(13); }
}

uint64_t falling_through(int which, uint64_t x) {
  switch (which) {
    case 10: MIX(3); /* fall through */
    case 9: MIX(5); /* fall through */
    case 8: CALL(7); /* fall through */
    case 7: MIX(11); /* fall through */
    case 6: CALL(13); break;
    case 3: return step(x);
    case 2: return step(x + 1);
    case 1: __builtin_trap();
  }
  return x;
}

uint64_t nested(int outer, int inner, uint64_t x) {
  switch (outer) {
    case 0: switch (inner) { CASES(CALL) } break;
    case 1: switch (inner) { CASES(MIX) default: CALL(2); } break;
    case 2: CALL(2); break;
    case 3: CALL(4); break;
    case 4: switch (inner + 3) { CASES(CALL) } break;
    case 5: CALL(8); break;
  }
  return x;
}

uint64_t twice(int which, uint64_t x) {
  switch (which) { CASES(CALL) }
  sink++;
  switch (which) { CASES(CALL) default: MIX(3); }
  return x;
}

uint64_t machine(const uint8_t *code, uint64_t x) {
  int state = 0;
  for (; *code; code++) {
    switch (state) {
      case 0: switch (*code) { CASES(MIX) } state = *code == 1 ? 1 : 4; break;
      case 1: CALL(3); state = 2; break;
      case 2: MIX(7); state = *code & 3; break;
      case 3: CALL(9); state = 4; break;
      case 4: MIX(19); state = 5; break;
      case 5: CALL(23); state = 0; break;
    }
  }
  return x;
}

uint64_t computed_goto(const uint8_t *code, uint64_t x) {
  static const void *const labels[] = {&&stop, &&one, &&two, &&three};
  goto *labels[*code];
one: MIX(3); goto *labels[*++code];
two: CALL(5); goto *labels[*++code];
three: MIX(7); goto *labels[*++code];
stop: return x;
}

uint64_t tail_call(uint64_t (*function)(uint64_t), uint64_t x) { return function(x + 1); }

uint64_t step(uint64_t x) { return x * 0x9e3779b97f4a7c15u >> 7; }

int main(void) { return 0; }
