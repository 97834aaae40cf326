#include "memory.h"

#include <algorithm>
#include <climits>

#include <sys/uio.h>
#include <unistd.h>

#include "tracer_task.h"

namespace fastprobe {

namespace {

/// As far as /proc/pid/mem goes: it also reads pages that the target itself may not.
uint64_t readThroughFile(int memory, uint64_t address, uint8_t* destination, uint64_t length) {
  uint64_t done = 0;
  while (done < length) {
    const ssize_t count = pread(memory, destination + done, length - done, static_cast<off_t>(address + done));
    if (count <= 0) break;
    done += static_cast<uint64_t>(count);
  }
  return done;
}

}  // namespace

std::vector<uint64_t> readRanges(pid_t pid, int memory, const std::vector<Range>& ranges, uint8_t* destination) {
  std::vector<uint64_t> lengths(ranges.size(), 0);
  std::vector<iovec> remote;
  size_t next = 0;
  while (next < ranges.size()) {
    // One call for up to IOV_MAX ranges; the kernel stops at the first byte it cannot read.
    const size_t count = std::min<size_t>(ranges.size() - next, IOV_MAX);
    remote.clear();
    uint64_t total = 0;
    for (size_t i = next; i < next + count; i++) {
      remote.push_back({reinterpret_cast<void*>(ranges[i].address), ranges[i].length});
      total += ranges[i].length;
    }
    iovec local{destination, total};
    const ssize_t result = process_vm_readv(pid, &local, 1, remote.data(), count, 0);
    uint64_t got = result > 0 ? static_cast<uint64_t>(result) : 0;
    const size_t end = next + count;
    while (next < end && got >= ranges[next].length) {
      lengths[next] = ranges[next].length;
      got -= ranges[next].length;
      destination += ranges[next].length;
      next += 1;
    }
    if (next == end) continue;
    // The range it stopped in: the rest of it goes the other way, and then on behind it.
    const Range& range = ranges[next];
    lengths[next] = got + readThroughFile(memory, range.address + got, destination + got, range.length - got);
    destination += range.length;
    next += 1;
  }
  return lengths;
}

std::vector<uint64_t> writeRanges(int memory, const std::vector<Range>& ranges, const uint8_t* source) {
  std::vector<uint64_t> lengths;
  lengths.reserve(ranges.size());
  // Code must not be left half written.
  const DeathDeferred deferred;
  for (const Range& range : ranges) {
    uint64_t done = 0;
    while (done < range.length) {
      const ssize_t count = pwrite(memory, source + done, range.length - done, static_cast<off_t>(range.address + done));
      if (count <= 0) break;
      done += static_cast<uint64_t>(count);
    }
    lengths.push_back(done);
    source += range.length;
  }
  return lengths;
}

}  // namespace fastprobe
