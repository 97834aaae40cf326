/* Variables for the examples of compiled code. */
struct node {
  int id;
  struct node *next;
  unsigned flags;
  char tag;
  short weight;
  unsigned ready : 1, level : 3;
};

int limit = 5;
long totals[4];
enum state { idle, running, stopped = 7 } state;
float ratio = 1.5f;
__thread int own;

int look(int i, int n, int cap, struct node *p, unsigned long size, char c, unsigned char *text) {
  int a[10] = {0};
  struct node local = *p;
  double real = ratio;
  __int128 wide = size;
  a[n & 7] = cap + c; /* here */
  return a[i & 7] + text[0] + (int)real + (int)wide + local.id + own;
}

int main(void) {
  struct node last = {2, 0, 0, 'x', 3, 1, 2}, first = {1, &last, 4, 'y', 9, 0, 5};
  unsigned char text[] = "text";
  return look(1, 2, 3, &first, 4, 5, text) + (int)totals[0] + limit + state;
}
