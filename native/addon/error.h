// What the native side reports when it fails: a code that TypeScript turns into a FastprobeError with a hint.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace fastprobe {

/// Thrown by every native operation. `code` is one of the codes in src/errors.ts, `number` the errno behind it or 0.
struct NativeError {
  const char* code;
  std::string message;
  int number = 0;
};

/// A system call failed in a way that has no code of its own.
[[noreturn]] inline void throwSystemError(const std::string& what, int number = errno) {
  throw NativeError{"FASTPROBE_SYSTEM", what + ": " + std::strerror(number), number};
}

}  // namespace fastprobe
