// Reading and writing the target's memory, many ranges at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sys/types.h>

namespace fastprobe {

struct Range {
  uint64_t address;
  uint64_t length;
};

/// Reads the ranges, one after the other, into `destination`. Returns how many bytes of each could be read, from its start.
std::vector<uint64_t> readRanges(pid_t pid, int memory, const std::vector<Range>& ranges, uint8_t* destination);

/// Writes the ranges from `source`, also to pages that the target itself can't write.
/// Returns how many bytes of each could be written, from its start.
std::vector<uint64_t> writeRanges(int memory, const std::vector<Range>& ranges, const uint8_t* source);

}  // namespace fastprobe
