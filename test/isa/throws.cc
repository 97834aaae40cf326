// Exceptions of several kinds through functions with destructors, with a checksum: calls must keep their return addresses.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// Executable room inside the program, for code that tests put there; the linker can be told to put the second far away.
__asm__(".pushsection .fp_room, \"ax\", @progbits\n.skip 0x400000, 0xcc\n.popsection");
__asm__(".pushsection .fp_far, \"ax\", @progbits\n.skip 0x400000, 0xcc\n.popsection");

static uint64_t sum = 17;

struct Guard {
  uint64_t value;
  explicit Guard(uint64_t v) : value(v) { sum = sum * 31 + v; }
  ~Guard() { sum = sum * 37 ^ value; }
};

struct Odd { int number; };

__attribute__((noinline)) static int deeper(int n) {
  Guard guard(static_cast<uint64_t>(n));
  switch (n % 9) {
    case 0: throw std::runtime_error("zero " + std::to_string(n));
    case 1: throw Odd{n};
    case 2: throw n * 3;
    case 3: return n + 1;
    case 4: return deeper(n + 5) + 1;
    case 5: throw std::string(static_cast<size_t>(n), 'x');
    case 6: return static_cast<int>(std::vector<int>(static_cast<size_t>(n), n).at(static_cast<size_t>(n) + 1));
    case 7: return deeper(n / 2);
    default: throw 2.5 * n;
  }
}

__attribute__((noinline)) static int catches(int n) {
  Guard outer(7);
  auto kept = std::make_unique<Guard>(static_cast<uint64_t>(n) << 20);
  try {
    Guard inner(9);
    return deeper(n);
  } catch (const Odd &odd) {
    return odd.number * 2;
  } catch (const std::runtime_error &error) {
    return static_cast<int>(std::string(error.what()).size());
  } catch (const std::string &text) {
    return static_cast<int>(text.size()) * 5;
  }
}

int main() {
  for (int n = 0; n < 200; n++) {
    try {
      sum += static_cast<uint64_t>(catches(n));
    } catch (int number) {
      sum ^= static_cast<uint64_t>(number) << 7;
    } catch (const std::exception &error) {
      sum += error.what()[0];
    } catch (...) {
      sum = sum << 1 | sum >> 63;
    }
    if (n % 20 == 0) std::printf("%d %016llx\n", n, static_cast<unsigned long long>(sum));
  }
  std::printf("%016llx\n", static_cast<unsigned long long>(sum));
}
