#include "proc_status.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace fastprobe {

char threadState(pid_t pid, pid_t tid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[512];
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = 0;
  // The command name may hold anything, also ") R"; the last parenthesis ends it.
  const char* end = std::strrchr(text, ')');
  return end != nullptr && end[1] == ' ' ? end[2] : 0;
}

int statusField(pid_t pid, pid_t tid, const char* name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[4096];
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* line = std::strstr(text, name);
  return line != nullptr ? std::atoi(line + std::strlen(name)) : 0;
}

}  // namespace fastprobe
