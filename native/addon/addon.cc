// The addon's door: two classes and two functions. src/target/addon.ts describes them to TypeScript.

#include <napi.h>

#include "runtime_blob.h"
#include "shared_region.h"
#include "target_object.h"

namespace {

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports.Set("Target", fastprobe::TargetObject::define(env));
  exports.Set("SharedRegion", fastprobe::SharedRegionObject::define(env));
  exports.Set("runtimeBlob", Napi::Function::New(env, fastprobe::runtimeBlob));
  exports.Set("clocks", Napi::Function::New(env, fastprobe::clocks));
  return exports;
}

}  // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, initialise)
