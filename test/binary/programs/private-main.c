struct state;
int a_size(void);
int b_size(void);
int main(void) {
  struct state *unknown = 0;
  return a_size() + b_size() + (unknown != 0);
}
