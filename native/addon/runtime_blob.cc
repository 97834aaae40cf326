#include "runtime_blob.h"

#include <cstdint>
#include <ctime>

#include <x86intrin.h>

extern "C" {
// The section that native/runtime/runtime.c is compiled into, and what is where in it.
extern const uint8_t __start_fastprobe_runtime[];
extern const uint8_t __stop_fastprobe_runtime[];
extern const uint8_t fastprobe_runtime_channel[];
extern const uint8_t fastprobe_runtime_restorer[];
extern const uint8_t fastprobe_runtime_handler[];
extern const uint8_t fastprobe_runtime_sigaction[];
}

namespace fastprobe {

Napi::Value runtimeBlob(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const uint8_t* start = __start_fastprobe_runtime;
  auto code = Napi::Uint8Array::New(env, static_cast<size_t>(__stop_fastprobe_runtime - start));
  std::copy(start, __stop_fastprobe_runtime, code.Data());
  Napi::Object blob = Napi::Object::New(env);
  blob.Set("code", code);
  const auto offset = [&](const char* name, const uint8_t* place) {
    blob.Set(name, Napi::Number::New(env, static_cast<double>(place - start)));
  };
  offset("channel", fastprobe_runtime_channel);
  offset("restorer", fastprobe_runtime_restorer);
  offset("handler", fastprobe_runtime_handler);
  offset("sigaction", fastprobe_runtime_sigaction);
  return blob;
}

Napi::Value clocks(const Napi::CallbackInfo& info) {
  // The reading that took least is the one least disturbed.
  uint64_t shortest = UINT64_MAX;
  uint64_t tsc = 0;
  timespec best{};
  for (int i = 0; i < 10; i++) {
    timespec now{};
    const uint64_t before = __rdtsc();
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t after = __rdtsc();
    if (after - before >= shortest) continue;
    shortest = after - before;
    tsc = before + shortest / 2;
    best = now;
  }
  auto result = Napi::BigUint64Array::New(info.Env(), 2);
  result[0] = tsc;
  result[1] = static_cast<uint64_t>(best.tv_sec) * 1000000000u + static_cast<uint64_t>(best.tv_nsec);
  return result;
}

}  // namespace fastprobe
