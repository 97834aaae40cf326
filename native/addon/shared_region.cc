#include "shared_region.h"

#include <climits>
#include <ctime>
#include <thread>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"

namespace fastprobe {

Mapping::Mapping(const char* path, size_t bytes) : length(bytes) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) throwSystemError(std::string("cannot open ") + path);
  void* place = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int number = errno;
  close(fd);
  if (place == MAP_FAILED) throwSystemError("cannot map the shared region", number);
  start = static_cast<uint8_t*>(place);
}

Mapping::~Mapping() { munmap(start, length); }

Napi::Function SharedRegionObject::define(Napi::Env env) {
  return DefineClass(env, "SharedRegion",
                     {InstanceMethod("buffer", &SharedRegionObject::buffer), InstanceMethod("wait", &SharedRegionObject::wait),
                      InstanceMethod("wake", &SharedRegionObject::wake)});
}

SharedRegionObject::SharedRegionObject(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  const std::string path = info[0].As<Napi::String>();
  try {
    mapping_ = std::make_shared<Mapping>(path.c_str(), static_cast<size_t>(info[1].As<Napi::Number>().Int64Value()));
  } catch (const NativeError& error) {
    Napi::Error failure = Napi::Error::New(info.Env(), error.message);
    failure.Set("code", Napi::String::New(info.Env(), error.code));
    throw failure;
  }
}

Napi::Value SharedRegionObject::buffer(const Napi::CallbackInfo& info) {
  auto* held = new std::shared_ptr<Mapping>(mapping_);
  return Napi::ArrayBuffer::New(
      info.Env(), mapping_->start, mapping_->length,
      [](Napi::Env, void*, std::shared_ptr<Mapping>* mapping) { delete mapping; }, held);
}

/// Resolves with true when woken or when the word no longer holds `expected`, with false when the time is over.
/// A wait blocks a thread of its own: the libuv pool has four, and other work needs them.
Napi::Value SharedRegionObject::wait(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const uint32_t offset = info[0].As<Napi::Number>();
  const uint32_t expected = info[1].As<Napi::Number>();
  const double milliseconds = info[2].As<Napi::Number>();
  auto deferred = std::make_shared<Napi::Promise::Deferred>(env);
  auto done = Napi::ThreadSafeFunction::New(env, Napi::Function::New(env, [](const Napi::CallbackInfo&) {}), "futex wait", 0, 1);
  std::thread([mapping = mapping_, offset, expected, milliseconds, deferred, done]() mutable {
    const bool forever = milliseconds < 0;
    const long nanoseconds = static_cast<long>(milliseconds * 1e6);
    const timespec limit{nanoseconds / 1000000000L, nanoseconds % 1000000000L};
    long result;
    do {
      result = syscall(SYS_futex, mapping->start + offset, FUTEX_WAIT, expected, forever ? nullptr : &limit, nullptr, 0);
    } while (result != 0 && errno == EINTR);
    const bool woken = result == 0 || errno == EAGAIN;
    mapping.reset();
    done.BlockingCall([deferred, woken](Napi::Env env, Napi::Function) {
      if (static_cast<napi_env>(env) != nullptr) deferred->Resolve(Napi::Boolean::New(env, woken));
    });
    done.Release();
  }).detach();
  return deferred->Promise();
}

Napi::Value SharedRegionObject::wake(const Napi::CallbackInfo& info) {
  const uint32_t offset = info[0].As<Napi::Number>();
  const uint32_t count = info[1].As<Napi::Number>();
  const long woken = syscall(SYS_futex, mapping_->start + offset, FUTEX_WAKE, count, nullptr, nullptr, 0);
  return Napi::Number::New(info.Env(), static_cast<double>(woken));
}

}  // namespace fastprobe
