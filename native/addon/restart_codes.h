// Codes that system calls return inside the kernel only (linux/errno.h), where user space never sees them but ptrace does.
#pragma once

namespace fastprobe {

/// ERESTARTNOHAND: start the call again, unless a handler runs; then the program gets EINTR.
constexpr long restartUnlessHandled = -514;
/// ERESTART_RESTARTBLOCK: go on with the call by what the kernel has noted of it (the time left to sleep).
constexpr long restartWithBlock = -516;

}  // namespace fastprobe
