// Throws in several ways and prints the landing pad that each of them reached, as an offset from the program's start.
#include <cstdio>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <unwind.h>

extern "C" char __executable_start;

// The personality routine calls this with the landing pad it found: ours is found before libgcc's.
extern "C" void _Unwind_SetIP(struct _Unwind_Context *context, _Unwind_Ptr pad) {
  static auto real = (void (*)(struct _Unwind_Context *, _Unwind_Ptr))dlsym(RTLD_NEXT, "_Unwind_SetIP");
  std::printf("pad 0x%lx\n", (unsigned long)(pad - (_Unwind_Ptr)&__executable_start));
  real(context, pad);
}

struct Guard {
  const char *name;
  explicit Guard(const char *name) : name(name) {}
  ~Guard() { std::printf("leave %s\n", name); }
};

__attribute__((noinline)) void thrower(int kind) {
  Guard guard("thrower");
  if (kind == 0) throw 7;
  if (kind == 1) throw std::runtime_error("one");
  if (kind == 2) throw std::string("two");
  std::printf("nothing %d\n", kind);
}

__attribute__((noinline)) int catcher(int kind) {
  try {
    Guard outer("outer");
    try {
      Guard inner("inner");
      thrower(kind);
    } catch (const std::runtime_error &error) {
      std::printf("caught %s\n", error.what());
      throw;
    }
    thrower(kind + 3);
  } catch (int code) {
    return code;
  } catch (const std::exception &) {
    return -1;
  } catch (...) {
    return -2;
  }
  return 0;
}

__attribute__((noinline)) int plain(int a, int b) { return a * b + 1; }

__attribute__((noinline)) std::string builder(int kind) {
  std::string first = "first", second = first + "second";
  thrower(kind + 5);
  if (kind == 1) throw first + second;
  return second;
}

int main(int argc, char **) {
  int sum = 0;
  for (int kind = 0; kind < 4; kind++) sum += catcher(kind);
  for (int kind = 0; kind < 2; kind++) {
    try {
      sum += (int)builder(kind).size();
    } catch (const std::string &text) {
      sum += plain((int)text.size(), argc);
    }
  }
  std::printf("%d\n", sum);
  return 0;
}
