// With private-b.c: two files that use one name for two types, and one variable name twice.
struct state {
  int only;
};
static int counter = 1;
static struct state kept;
int a_size(void) { return (int)sizeof(kept) + counter; }
