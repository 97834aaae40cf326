#include "operation.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"
#include "tracer_task.h"

namespace fastprobe {

namespace {

constexpr size_t stackSearchLimit = 1 << 20;

bool failed(const std::vector<int64_t>& results) { return !results.empty() && results.back() < 0 && results.back() > -4096; }

/// A descriptor of the target, opened on our side (the task shares Node's files) and closed on the other.
int takeDescriptor(TracedProcess& process, int64_t theirs, uint64_t instruction, std::chrono::milliseconds timeout) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", process.pid(), static_cast<int>(theirs));
  const int ours = open(path, O_RDWR | O_CLOEXEC);
  const int number = errno;
  process.remoteSyscalls(0, instruction, {SYS_close, static_cast<uint64_t>(theirs), 0, 0, 0, 0, 0, 0}, {}, timeout);
  if (ours < 0) throwSystemError(std::string("cannot open ") + path, number);
  return ours;
}

bool isAsExpected(int memory, const Change& change) {
  std::vector<uint8_t> found(change.expected.size());
  const ssize_t count = pread(memory, found.data(), found.size(), static_cast<off_t>(change.address));
  return count == static_cast<ssize_t>(found.size()) && found == change.expected;
}

const Move* moveFrom(const std::vector<Move>& moves, uint64_t address) {
  const auto found = std::find_if(moves.begin(), moves.end(), [&](const Move& move) { return move.from == address; });
  return found == moves.end() ? nullptr : &*found;
}

/// The end of the mapping that has an address; 0 if none has.
uint64_t endOfMapping(pid_t pid, uint64_t address) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE* maps = std::fopen(path, "re");
  if (maps == nullptr) return 0;
  char line[512];
  unsigned long start = 0;
  unsigned long end = 0;
  uint64_t found = 0;
  while (found == 0 && std::fgets(line, sizeof line, maps) != nullptr) {
    if (std::sscanf(line, "%lx-%lx ", &start, &end) == 2 && start <= address && address < end) found = end;
  }
  std::fclose(maps);
  return found;
}

/// Signal frames on a stack whose instruction pointer has to be moved. In the kernel's layout (struct sigcontext) the flags
/// follow the instruction pointer, and then the selectors of 64-bit user code: nothing else looks like that.
void moveSignalFrames(const TracedProcess& process, uint64_t stackPointer, const std::vector<Move>& moves) {
  const uint64_t from = stackPointer & ~uint64_t{7};
  const uint64_t end = endOfMapping(process.pid(), from);
  if (end == 0) return;
  std::vector<uint64_t> words(std::min<uint64_t>(end - from, stackSearchLimit) / 8);
  const ssize_t count = pread(process.memory(), words.data(), words.size() * 8, static_cast<off_t>(from));
  if (count <= 0) return;
  words.resize(static_cast<size_t>(count) / 8);
  for (size_t i = 0; i + 2 < words.size(); i++) {
    const bool isFrame = (words[i + 2] & 0xffff) == 0x33 && (words[i + 1] & 2) != 0 && words[i + 1] < 1 << 22;
    const Move* move = isFrame ? moveFrom(moves, words[i]) : nullptr;
    if (move != nullptr) (void)!pwrite(process.memory(), &move->to, 8, static_cast<off_t>(from + i * 8));
  }
}

void moveThreads(TracedProcess& process, const std::vector<Move>& moves) {
  if (moves.empty()) return;
  for (const pid_t tid : process.stoppedThreads()) {
    user_regs_struct registers = process.registers(tid);
    moveSignalFrames(process, registers.rsp, moves);
    const Move* move = moveFrom(moves, registers.rip);
    if (move == nullptr) continue;
    registers.rip = move->to;
    process.setRegisters(tid, registers);
  }
}

void doAll(TracedProcess& process, const Operation& operation, uint64_t instruction, OperationResult& result) {
  for (const pid_t tid : process.stoppedThreads()) {
    result.tids.push_back(tid);
    result.threadPointers.push_back(process.registers(tid).fs_base);
  }
  if (!operation.calls.empty()) {
    result.results = process.remoteSyscalls(0, instruction, operation.calls, operation.data, operation.timeout);
    const auto index = static_cast<size_t>(operation.descriptorOf);
    if (operation.descriptorOf >= 0 && index < result.results.size() && result.results[index] >= 0) {
      result.descriptor = takeDescriptor(process, result.results[index], instruction, operation.timeout);
    }
    if (failed(result.results)) return;
  }
  std::vector<bool> skip(operation.changes.size());
  result.mismatches.reserve(2 * operation.changes.size());
  for (size_t i = 0; i < operation.changes.size(); i++) {
    skip[i] = !isAsExpected(process.memory(), operation.changes[i]);
    if (skip[i]) result.mismatches.push_back(static_cast<int32_t>(i));
  }
  if (operation.allOrNone && !result.mismatches.empty()) return;
  // Threads first: one that stands in a copy does the right thing whether the change is there or not, one that stands in
  // changed bytes does not.
  moveThreads(process, operation.moves);
  const DeathDeferred deferred;
  for (size_t i = 0; i < operation.changes.size(); i++) {
    if (skip[i]) continue;
    const Change& change = operation.changes[i];
    const ssize_t count = pwrite(process.memory(), change.bytes.data(), change.bytes.size(), static_cast<off_t>(change.address));
    if (count != static_cast<ssize_t>(change.bytes.size())) result.mismatches.push_back(static_cast<int32_t>(i));
  }
}

void end(TracedProcess& process, const Operation& operation) {
  if (operation.end == Operation::End::Run) process.resume();
  if (operation.end == Operation::End::Detach) process.detach(operation.timeout);
}

}  // namespace

OperationResult operate(TracedProcess& process, const Operation& operation, uint64_t syscallInstruction) {
  OperationResult result;
  process.stop(operation.timeout);
  try {
    doAll(process, operation, syscallInstruction, result);
  } catch (...) {
    if (result.descriptor >= 0) close(result.descriptor);
    try {
      end(process, operation);
    } catch (const NativeError&) {
      // It is gone; the first error says why.
    }
    throw;
  }
  end(process, operation);
  return result;
}

}  // namespace fastprobe
