// A target as JavaScript sees it: every method posts a job to the tracer task and returns a promise.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <napi.h>

#include "traced_process.h"
#include "tracer_task.h"

namespace fastprobe {

/// One target, from attach or launch to its end. TypeScript has checked every argument (src/target/addon.ts has the types).
class TargetObject : public Napi::ObjectWrap<TargetObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit TargetObject(const Napi::CallbackInfo& info);

 private:
  /// Makes the job's result into a JavaScript value; runs in the JavaScript thread.
  using Finish = std::function<Napi::Value(Napi::Env)>;
  /// The job itself; runs in the tracer task.
  using Work = std::function<Finish(TracedProcess&)>;

  /// What the task and the JavaScript thread share. It outlives the JavaScript object for as long as the task needs it.
  struct Link;

  Napi::Value schedule(const Napi::CallbackInfo& info, Work work, std::initializer_list<Napi::Value> keepAlive = {});

  Napi::Value attach(const Napi::CallbackInfo& info);
  Napi::Value launch(const Napi::CallbackInfo& info);
  Napi::Value runTo(const Napi::CallbackInfo& info);
  Napi::Value stop(const Napi::CallbackInfo& info);
  Napi::Value resume(const Napi::CallbackInfo& info);
  Napi::Value detach(const Napi::CallbackInfo& info);
  Napi::Value kill(const Napi::CallbackInfo& info);
  Napi::Value registers(const Napi::CallbackInfo& info);
  Napi::Value setRegisters(const Napi::CallbackInfo& info);
  Napi::Value xstate(const Napi::CallbackInfo& info);
  Napi::Value setXstate(const Napi::CallbackInfo& info);
  Napi::Value read(const Napi::CallbackInfo& info);
  Napi::Value write(const Napi::CallbackInfo& info);
  Napi::Value operate(const Napi::CallbackInfo& info);
  Napi::Value syscalls(const Napi::CallbackInfo& info);
  Napi::Value wantSignals(const Napi::CallbackInfo& info);
  void unref(const Napi::CallbackInfo& info);

  std::shared_ptr<Link> link_;
};

}  // namespace fastprobe
