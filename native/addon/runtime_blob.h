// The code that is copied into targets, and the clock that it stamps hits with.
#pragma once

#include <napi.h>

namespace fastprobe {

/// JavaScript: { code, channel, restorer, handler, sigaction }, the last four as offsets into the code.
Napi::Value runtimeBlob(const Napi::CallbackInfo& info);

/// The time stamp counter and, at the same moment, the nanoseconds since 1970.
Napi::Value clocks(const Napi::CallbackInfo& info);

}  // namespace fastprobe
