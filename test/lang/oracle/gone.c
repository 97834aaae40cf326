/* A variable that the compiler forgets before the end of the function. */
volatile int sink;

__attribute__((noipa)) void lose(void) { sink++; }

__attribute__((noipa)) int forget(void) {
  int early = sink;
  sink = early + 1;
  sink = early * 3;
  lose();
  sink = 1; /* here */
  return sink;
}

int main(void) { return forget(); }
