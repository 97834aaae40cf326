// Starting a program as a child of the tracer, held before its exec.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "traced_process.h"

namespace fastprobe {

struct LaunchPlan {
  std::string file;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string folder;
  /// File descriptors of Node that become the program's 0, 1 and 2.
  int stdio[3];
  /// The process group that the program belongs to: Node's, so that a terminal's Ctrl-C reaches it.
  pid_t group;
};

/// Starts the program and stops it at its first instruction, under `process`. Called in the tracer task.
void launch(TracedProcess& process, const LaunchPlan& plan);

}  // namespace fastprobe
