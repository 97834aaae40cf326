struct other;
struct state {
  char *name;
  long values[2];
};
static long counter = 2;
static struct state kept;
int b_size(void) { return (int)sizeof(kept) + (int)counter; }
