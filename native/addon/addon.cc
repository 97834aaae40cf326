// The addon's door: two classes. src/target/addon.ts describes them to TypeScript.

#include <napi.h>

#include "shared_region.h"
#include "target_object.h"

namespace {

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports.Set("Target", fastprobe::TargetObject::define(env));
  exports.Set("SharedRegion", fastprobe::SharedRegionObject::define(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, initialise)
