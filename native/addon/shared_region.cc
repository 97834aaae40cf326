#include "shared_region.h"

#include <atomic>
#include <climits>
#include <ctime>
#include <future>
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

namespace {

using CleanupHook = Napi::Env::CleanupHook<std::function<void()>>;

long futex(uint8_t* word, int operation, uint32_t value, const timespec* limit = nullptr) {
  return syscall(SYS_futex, word, operation, value, limit, nullptr, 0);
}

/// One wait on a word of the region, in a thread of its own: the libuv pool has four, and other work needs them.
///
/// Owns a share of the mapping and the thread-safe function. When the environment ends first, it is called off.
struct Wait {
  Wait(Napi::Env env, std::shared_ptr<Mapping> mapping, uint32_t offset)
      : mapping(std::move(mapping)),
        word(this->mapping->start + offset),
        deferred(env),
        done(Napi::ThreadSafeFunction::New(env, Napi::Function::New(env, [](const Napi::CallbackInfo&) {}), "futex wait", 0, 1)) {}

  /// True when woken or when the word no longer holds `expected`, false when the time is over.
  bool run(uint32_t expected, double milliseconds) const {
    const long nanoseconds = static_cast<long>(milliseconds * 1e6);
    const timespec limit{nanoseconds / 1000000000L, nanoseconds % 1000000000L};
    long result;
    do {
      result = futex(word, FUTEX_WAIT, expected, milliseconds < 0 ? nullptr : &limit);
    } while (result != 0 && errno == EINTR && !calledOff);
    return result == 0 || errno == EAGAIN;
  }

  /// Wakes the thread and waits until it has let go of the environment. Others who wait on the word see a wake-up without
  /// a reason, which futexes allow.
  void callOff() {
    calledOff = true;
    const std::future<void> end = released.get_future();
    do {
      futex(word, FUTEX_WAKE, INT_MAX);
    } while (end.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready);
  }

  const std::shared_ptr<Mapping> mapping;
  uint8_t* const word;
  const Napi::Promise::Deferred deferred;
  Napi::ThreadSafeFunction done;
  std::unique_ptr<CleanupHook> cleanup;
  std::atomic<bool> calledOff{false};
  std::promise<void> released;
};

}  // namespace

/// Resolves with true when woken or when the word no longer holds `expected`, with false when the time is over.
Napi::Value SharedRegionObject::wait(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const uint32_t offset = info[0].As<Napi::Number>();
  const uint32_t expected = info[1].As<Napi::Number>();
  const double milliseconds = info[2].As<Napi::Number>();
  const auto wait = std::make_shared<Wait>(env, mapping_, offset);
  const Napi::Promise promise = wait->deferred.Promise();
  wait->cleanup = std::make_unique<CleanupHook>(
      env.AddCleanupHook(std::function<void()>([weak = std::weak_ptr<Wait>(wait)] {
        if (const auto wait = weak.lock()) wait->callOff();
      })));
  std::thread([wait, expected, milliseconds] {
    const bool woken = wait->run(expected, milliseconds);
    wait->done.BlockingCall([wait, woken](Napi::Env env, Napi::Function) {
      if (static_cast<napi_env>(env) == nullptr || wait->calledOff) return;
      wait->cleanup->Remove(env);
      try {
        wait->deferred.Resolve(Napi::Boolean::New(env, woken));
      } catch (const Napi::Error&) {
        // A worker is being terminated: nobody awaits this any more.
      }
    });
    wait->done.Release();
    wait->released.set_value();
  }).detach();
  return promise;
}

Napi::Value SharedRegionObject::wake(const Napi::CallbackInfo& info) {
  const uint32_t offset = info[0].As<Napi::Number>();
  const uint32_t count = info[1].As<Napi::Number>();
  const long woken = futex(mapping_->start + offset, FUTEX_WAKE, count);
  return Napi::Number::New(info.Env(), static_cast<double>(woken));
}

}  // namespace fastprobe
