// Memory shared with the target, as an ArrayBuffer, with futexes on it.
#pragma once

#include <memory>

#include <napi.h>

namespace fastprobe {

/// A shared mapping of a file. It is unmapped when the region is closed, its ArrayBuffer is gone, and no wait is pending.
struct Mapping {
  Mapping(const char* path, size_t length);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  uint8_t* start;
  size_t length;
};

/// JavaScript: new SharedRegion(path, length), .buffer(), .wait(offset, expected, milliseconds), .wake(offset, count).
class SharedRegionObject : public Napi::ObjectWrap<SharedRegionObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit SharedRegionObject(const Napi::CallbackInfo& info);

 private:
  Napi::Value buffer(const Napi::CallbackInfo& info);
  Napi::Value wait(const Napi::CallbackInfo& info);
  Napi::Value wake(const Napi::CallbackInfo& info);

  std::shared_ptr<Mapping> mapping_;
};

}  // namespace fastprobe
