// An operation on a stopped target, planned before: all of it in one go, without coming back to JavaScript in between.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "traced_process.h"

namespace fastprobe {

/// Bytes to be changed, if those that are there are the expected ones.
struct Change {
  uint64_t address;
  std::vector<uint8_t> expected;
  std::vector<uint8_t> bytes;
};

/// For a thread that stands at the first address, also in a signal frame: where it goes on.
struct Move {
  uint64_t from;
  uint64_t to;
};

struct Operation {
  enum class End { Run, Detach, StayStopped };

  /// System calls to run first, as TracedProcess::remoteSyscalls takes them.
  std::vector<uint64_t> calls;
  std::vector<uint8_t> data;
  /// The call whose result is a file descriptor of the target that we want as well; it is closed in the target. -1: none.
  int descriptorOf = -1;
  std::vector<Move> moves;
  std::vector<Change> changes;
  /// When bytes are not as expected: change nothing and move nobody, or only leave that one out.
  bool allOrNone = true;
  End end = End::Run;
  std::chrono::milliseconds timeout{5000};
};

struct OperationResult {
  /// What the system calls returned, up to the first that failed; after a failure nothing else is done.
  std::vector<int64_t> results;
  /// Ours, of the file that `descriptorOf` asks for, or -1.
  int descriptor = -1;
  /// Indices of changes whose bytes were not as expected, or could not be written.
  std::vector<int32_t> mismatches;
  std::vector<pid_t> tids;
  /// The thread pointers of those.
  std::vector<uint64_t> threadPointers;
};

/// Stops the target, does it all, and lets the target go as asked, whatever came of it.
OperationResult operate(TracedProcess& process, const Operation& operation, uint64_t syscallInstruction);

}  // namespace fastprobe
