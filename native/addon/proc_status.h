// Facts about a thread from /proc.
#pragma once

#include <sys/types.h>

namespace fastprobe {

/// The letter of /proc/pid/task/tid/stat: R, S, D, Z, …; 0 when the thread is gone.
char threadState(pid_t pid, pid_t tid);

/// A number in /proc/pid/task/tid/status, by its name with the colon; 0 when the thread is gone.
int statusField(pid_t pid, pid_t tid, const char* name);

}  // namespace fastprobe
