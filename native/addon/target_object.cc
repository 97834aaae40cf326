#include "target_object.h"

#include <future>

#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "launch.h"
#include "memory.h"
#include "operation.h"

namespace fastprobe {

namespace {

static_assert(sizeof(user_regs_struct) == 27 * 8, "src/target/registers.ts knows this layout");

Napi::Value undefined(Napi::Env env) { return env.Undefined(); }

Napi::Error toJavaScript(Napi::Env env, const NativeError& error) {
  Napi::Error result = Napi::Error::New(env, error.message);
  result.Set("code", Napi::String::New(env, error.code));
  result.Set("errno", Napi::Number::New(env, error.number));
  return result;
}

/// Exactly one of `exitCode` and `signal` is a number, as with Node's own child processes.
void setStatus(Napi::Object& object, int status) {
  Napi::Env env = object.Env();
  object.Set("exitCode", WIFEXITED(status) ? Napi::Number::New(env, WEXITSTATUS(status)).As<Napi::Value>() : env.Null());
  object.Set("signal", WIFSIGNALED(status) ? Napi::Number::New(env, WTERMSIG(status)).As<Napi::Value>() : env.Null());
}

Napi::Object eventObject(Napi::Env env, const Event& event) {
  Napi::Object object = Napi::Object::New(env);
  const auto number = [&](const char* name, double value) { object.Set(name, Napi::Number::New(env, value)); };
  number("tid", event.tid);
  switch (event.kind) {
    case Event::Kind::Exit:
      object.Set("type", "exit");
      setStatus(object, event.status);
      break;
    case Event::Kind::ThreadExit:
      object.Set("type", "thread-exit");
      break;
    case Event::Kind::Exec:
      object.Set("type", "exec");
      number("formerTid", event.other);
      break;
    case Event::Kind::Fork:
      object.Set("type", "fork");
      object.Set("how", event.how);
      number("child", event.other);
      break;
    case Event::Kind::Thread:
      object.Set("type", "thread");
      number("newTid", event.other);
      break;
    case Event::Kind::Signal:
      object.Set("type", "signal");
      number("signal", event.info.si_signo);
      number("code", event.info.si_code);
      number("sender", event.info.si_pid);
      object.Set("address", Napi::BigInt::New(env, reinterpret_cast<uint64_t>(event.info.si_addr)));
      object.Set("value", Napi::BigInt::New(env, reinterpret_cast<uint64_t>(event.info.si_value.sival_ptr)));
      break;
  }
  return object;
}

std::chrono::milliseconds milliseconds(const Napi::Value& value) {
  return std::chrono::milliseconds(value.As<Napi::Number>().Int64Value());
}

uint64_t unsignedOf(const Napi::Value& value) {
  bool lossless;
  return value.As<Napi::BigInt>().Uint64Value(&lossless);
}

/// A BigUint64Array [address, length, address, length, …].
std::vector<Range> rangesOf(const Napi::Value& value) {
  const auto numbers = value.As<Napi::BigUint64Array>();
  std::vector<Range> ranges(numbers.ElementLength() / 2);
  std::memcpy(ranges.data(), numbers.Data(), ranges.size() * sizeof(Range));
  return ranges;
}

std::vector<std::string> textsOf(const Napi::Value& value) {
  const auto array = value.As<Napi::Array>();
  std::vector<std::string> texts;
  for (uint32_t i = 0; i < array.Length(); i++) texts.push_back(array.Get(i).As<Napi::String>());
  return texts;
}

Napi::Value numbersToJavaScript(Napi::Env env, const std::vector<uint64_t>& numbers) {
  auto array = Napi::Float64Array::New(env, numbers.size());
  std::copy(numbers.begin(), numbers.end(), array.Data());
  return array;
}

}  // namespace

using CleanupHook = Napi::Env::CleanupHook<std::function<void()>>;

struct TargetObject::Link {
  struct Call {
    Napi::Promise::Deferred deferred;
    /// Buffers that the task reads or writes meanwhile.
    std::vector<Napi::ObjectReference> kept;
  };

  /// Runs `message` in the JavaScript thread; nothing happens when that is shutting down.
  void send(std::function<void(Napi::Env)> message) {
    toJavaScriptThread.BlockingCall([message = std::move(message)](Napi::Env env, Napi::Function) {
      if (static_cast<napi_env>(env) == nullptr) return;
      try {
        Napi::HandleScope scope(env);
        message(env);
      } catch (const Napi::Error& error) {
        // A listener threw; or, with no exception to pass on, a worker is being terminated and JavaScript runs no more.
        if (!error.IsEmpty()) error.ThrowAsJavaScriptException();
      }
    });
  }

  /// In the JavaScript thread: lets go of all that JavaScript owns.
  void close() {
    ended = true;
    calls.clear();
    onEvent.Reset();
    task.reset();
  }

  Napi::ThreadSafeFunction toJavaScriptThread;
  std::shared_ptr<TracerTask> task;
  /// Lives on the task's stack; only jobs use it.
  TracedProcess* process = nullptr;
  /// Why jobs that were not done could not be; the task corrects it when it ends in order.
  NativeError endReason{"FASTPROBE_TRACER_LOST", "the tracer task was killed", 0};

  // In the JavaScript thread only:
  Napi::FunctionReference onEvent;
  std::map<uint64_t, Call> calls;
  uint64_t nextCall = 0;
  bool ended = false;
  std::unique_ptr<CleanupHook> cleanup;

  /// Set when the task and the thread around it use this no more.
  std::promise<void> released;
};

Napi::Function TargetObject::define(Napi::Env env) {
  return DefineClass(env, "Target",
                     {InstanceMethod("attach", &TargetObject::attach), InstanceMethod("launch", &TargetObject::launch),
                      InstanceMethod("runTo", &TargetObject::runTo), InstanceMethod("stop", &TargetObject::stop),
                      InstanceMethod("resume", &TargetObject::resume), InstanceMethod("detach", &TargetObject::detach),
                      InstanceMethod("kill", &TargetObject::kill), InstanceMethod("registers", &TargetObject::registers),
                      InstanceMethod("setRegisters", &TargetObject::setRegisters),
                      InstanceMethod("xstate", &TargetObject::xstate), InstanceMethod("setXstate", &TargetObject::setXstate),
                      InstanceMethod("read", &TargetObject::read), InstanceMethod("write", &TargetObject::write),
                      InstanceMethod("operate", &TargetObject::operate),
                      InstanceMethod("syscalls", &TargetObject::syscalls),
                      InstanceMethod("wantSignals", &TargetObject::wantSignals), InstanceMethod("unref", &TargetObject::unref)});
}

TargetObject::TargetObject(const Napi::CallbackInfo& info) : ObjectWrap(info), link_(std::make_shared<Link>()) {
  Napi::Env env = info.Env();
  link_->onEvent = Napi::Persistent(info[0].As<Napi::Function>());
  link_->toJavaScriptThread =
      Napi::ThreadSafeFunction::New(env, Napi::Function::New(env, [](const Napi::CallbackInfo&) {}), "fastprobe", 0, 1);

  const auto body = [link = link_](TracerTask& task) {
    TracedProcess process(task, [&link](const Event& event) {
      link->send([link, event](Napi::Env env) { link->onEvent.Call({eventObject(env, event)}); });
    });
    link->process = &process;
    while (!process.finished()) {
      task.wait();
      process.reap();
      while (!process.finished()) {
        const Job job = task.takeJob();
        if (!job) break;
        job();
        process.reap();
      }
    }
    try {
      process.require();
    } catch (const NativeError& reason) {
      link->endReason = reason;
    }
  };
  const auto ended = [link = link_] {
    link->send([link](Napi::Env env) {
      if (link->ended) return;
      for (auto& [id, call] : link->calls) call.deferred.Reject(toJavaScript(env, link->endReason).Value());
      link->close();
      link->cleanup->Remove(env);
    });
    link->toJavaScriptThread.Release();
    link->released.set_value();
  };
  link_->task = TracerTask::start(body, ended);

  // A worker that ends, or Node that has nothing more to do, leaves no target attached behind. It waits for the task, which
  // may be using buffers that go with the worker. process.exit() does not come here; then the task's death signal does it.
  link_->cleanup = std::make_unique<CleanupHook>(env.AddCleanupHook(std::function<void()>([weak = std::weak_ptr<Link>(link_)] {
    const auto link = weak.lock();
    if (!link || link->ended) return;
    link->task->post([link] { link->process->abandon(); });
    link->released.get_future().wait();
    link->close();
  })));
}

Napi::Value TargetObject::schedule(const Napi::CallbackInfo& info, Work work, std::initializer_list<Napi::Value> keepAlive) {
  Napi::Env env = info.Env();
  Link::Call call{Napi::Promise::Deferred(env), {}};
  const Napi::Promise promise = call.deferred.Promise();
  if (link_->ended) {
    call.deferred.Reject(toJavaScript(env, link_->endReason).Value());
    return promise;
  }
  for (const Napi::Value& value : keepAlive) call.kept.push_back(Napi::Persistent(value.As<Napi::Object>()));
  const uint64_t id = link_->nextCall++;
  link_->calls.emplace(id, std::move(call));
  link_->task->post([link = link_, id, work = std::move(work)] {
    Finish finish;
    NativeError failure{"", ""};
    try {
      finish = work(*link->process);
    } catch (const NativeError& error) {
      failure = error;
    }
    link->send([link, id, finish, failure](Napi::Env env) {
      const auto found = link->calls.find(id);
      if (found == link->calls.end()) return;
      const Napi::Promise::Deferred deferred = found->second.deferred;
      link->calls.erase(found);
      if (finish) {
        deferred.Resolve(finish(env));
      } else {
        deferred.Reject(toJavaScript(env, failure).Value());
      }
    });
  });
  return promise;
}

Napi::Value TargetObject::attach(const Napi::CallbackInfo& info) {
  return schedule(info, [pid = info[0].As<Napi::Number>().Int32Value()](TracedProcess& process) -> Finish {
    process.attach(pid);
    return undefined;
  });
}

Napi::Value TargetObject::launch(const Napi::CallbackInfo& info) {
  LaunchPlan plan{.file = info[0].As<Napi::String>(),
                  .arguments = textsOf(info[1]),
                  .environment = textsOf(info[2]),
                  .folder = info[3].As<Napi::String>(),
                  .stdio = {},
                  .group = getpgrp()};
  for (uint32_t i = 0; i < 3; i++) plan.stdio[i] = info[4].As<Napi::Array>().Get(i).As<Napi::Number>();
  return schedule(info, [plan = std::move(plan)](TracedProcess& process) -> Finish {
    fastprobe::launch(process, plan);
    const pid_t pid = process.pid();
    return [pid](Napi::Env env) { return Napi::Number::New(env, pid); };
  });
}

Napi::Value TargetObject::runTo(const Napi::CallbackInfo& info) {
  return schedule(info, [address = unsignedOf(info[0]), timeout = milliseconds(info[1])](TracedProcess& process) -> Finish {
    process.runTo(address, timeout);
    return undefined;
  });
}

Napi::Value TargetObject::stop(const Napi::CallbackInfo& info) {
  return schedule(info, [timeout = milliseconds(info[0])](TracedProcess& process) -> Finish {
    process.stop(timeout);
    return undefined;
  });
}

Napi::Value TargetObject::resume(const Napi::CallbackInfo& info) {
  return schedule(info, [](TracedProcess& process) -> Finish {
    process.resume();
    return [held = process.stopMicroseconds()](Napi::Env env) { return Napi::Number::New(env, held); };
  });
}

Napi::Value TargetObject::detach(const Napi::CallbackInfo& info) {
  return schedule(info, [timeout = milliseconds(info[0])](TracedProcess& process) -> Finish {
    process.detach(timeout);
    return [held = process.stopMicroseconds()](Napi::Env env) { return Napi::Number::New(env, held); };
  });
}

Napi::Value TargetObject::kill(const Napi::CallbackInfo& info) {
  return schedule(info, [signal = info[0].As<Napi::Number>().Int32Value()](TracedProcess& process) -> Finish {
    process.kill(signal);
    return undefined;
  });
}

/// All stopped threads: { tids, values }, 27 words each in the order of user_regs_struct.
Napi::Value TargetObject::registers(const Napi::CallbackInfo& info) {
  return schedule(info, [](TracedProcess& process) -> Finish {
    process.require(true);
    const std::vector<pid_t> tids = process.stoppedThreads();
    std::vector<user_regs_struct> values;
    for (const pid_t tid : tids) values.push_back(process.registers(tid));
    return [tids, values](Napi::Env env) {
      auto tidArray = Napi::Int32Array::New(env, tids.size());
      std::copy(tids.begin(), tids.end(), tidArray.Data());
      auto valueArray = Napi::BigUint64Array::New(env, values.size() * sizeof(user_regs_struct) / 8);
      if (!values.empty()) std::memcpy(valueArray.Data(), values.data(), values.size() * sizeof(user_regs_struct));
      Napi::Object result = Napi::Object::New(env);
      result.Set("tids", tidArray);
      result.Set("values", valueArray);
      return result;
    };
  });
}

Napi::Value TargetObject::setRegisters(const Napi::CallbackInfo& info) {
  const auto tidArray = info[0].As<Napi::Int32Array>();
  const std::vector<pid_t> tids(tidArray.Data(), tidArray.Data() + tidArray.ElementLength());
  std::vector<user_regs_struct> values(tids.size());
  std::memcpy(values.data(), info[1].As<Napi::BigUint64Array>().Data(), values.size() * sizeof(user_regs_struct));
  return schedule(info, [tids, values](TracedProcess& process) -> Finish {
    process.require(true);
    for (size_t i = 0; i < tids.size(); i++) process.setRegisters(tids[i], values[i]);
    return undefined;
  });
}

Napi::Value TargetObject::xstate(const Napi::CallbackInfo& info) {
  return schedule(info, [tid = info[0].As<Napi::Number>().Int32Value()](TracedProcess& process) -> Finish {
    process.require(true);
    return [bytes = process.xstate(tid)](Napi::Env env) {
      auto array = Napi::Uint8Array::New(env, bytes.size());
      std::copy(bytes.begin(), bytes.end(), array.Data());
      return array;
    };
  });
}

Napi::Value TargetObject::setXstate(const Napi::CallbackInfo& info) {
  const auto array = info[1].As<Napi::Uint8Array>();
  std::vector<uint8_t> bytes(array.Data(), array.Data() + array.ByteLength());
  return schedule(info, [tid = info[0].As<Napi::Number>().Int32Value(), bytes](TracedProcess& process) mutable -> Finish {
    process.require(true);
    process.setXstate(tid, bytes);
    return undefined;
  });
}

Napi::Value TargetObject::read(const Napi::CallbackInfo& info) {
  uint8_t* destination = info[1].As<Napi::Uint8Array>().Data();
  return schedule(
      info,
      [ranges = rangesOf(info[0]), destination](TracedProcess& process) -> Finish {
        process.require();
        const auto lengths = readRanges(process.pid(), process.memory(), ranges, destination);
        return [lengths](Napi::Env env) { return numbersToJavaScript(env, lengths); };
      },
      {info[1]});
}

Napi::Value TargetObject::write(const Napi::CallbackInfo& info) {
  const uint8_t* source = info[1].As<Napi::Uint8Array>().Data();
  return schedule(
      info,
      [ranges = rangesOf(info[0]), source](TracedProcess& process) -> Finish {
        process.require();
        const auto lengths = writeRanges(process.memory(), ranges, source);
        return [lengths](Napi::Env env) { return numbersToJavaScript(env, lengths); };
      },
      {info[1]});
}

/// Runs system calls one after the other, up to the first that fails. src/target/remote-calls.ts has the meaning of the words.
Napi::Value TargetObject::syscalls(const Napi::CallbackInfo& info) {
  const auto wordArray = info[2].As<Napi::BigUint64Array>();
  const auto dataArray = info[3].As<Napi::Uint8Array>();
  return schedule(info, [tid = info[0].As<Napi::Number>().Int32Value(), instruction = unsignedOf(info[1]),
                         words = std::vector<uint64_t>(wordArray.Data(), wordArray.Data() + wordArray.ElementLength()),
                         data = std::vector<uint8_t>(dataArray.Data(), dataArray.Data() + dataArray.ByteLength()),
                         timeout = milliseconds(info[4])](TracedProcess& process) -> Finish {
    const std::vector<int64_t> results = process.remoteSyscalls(tid, instruction, words, data, timeout);
    return [results](Napi::Env env) {
      auto array = Napi::BigInt64Array::New(env, results.size());
      std::copy(results.begin(), results.end(), array.Data());
      return array;
    };
  });
}

/// JavaScript passes an object of numbers and typed arrays (src/target/operation.ts); the fields have the names of Operation's.
Napi::Value TargetObject::operate(const Napi::CallbackInfo& info) {
  const auto plan = info[1].As<Napi::Object>();
  const auto bytesOf = [&](const char* name) {
    const auto array = plan.Get(name).As<Napi::Uint8Array>();
    return std::vector<uint8_t>(array.Data(), array.Data() + array.ByteLength());
  };
  const auto wordsOf = [&](const char* name) {
    const auto array = plan.Get(name).As<Napi::BigUint64Array>();
    return std::vector<uint64_t>(array.Data(), array.Data() + array.ElementLength());
  };
  Operation operation;
  operation.calls = wordsOf("calls");
  operation.data = bytesOf("data");
  operation.descriptorOf = plan.Get("descriptorOf").As<Napi::Number>();
  const auto moves = wordsOf("moves");
  for (size_t i = 0; i + 2 <= moves.size(); i += 2) operation.moves.push_back({moves[i], moves[i + 1]});
  // Address, length expected, length written; the bytes themselves one after the other.
  const auto changes = wordsOf("changes");
  const auto contents = bytesOf("contents");
  auto content = contents.begin();
  const auto take = [&](uint64_t length) {
    const auto start = content;
    content += static_cast<ptrdiff_t>(length);
    return std::vector<uint8_t>(start, content);
  };
  for (size_t i = 0; i + 3 <= changes.size(); i += 3) {
    Change change{changes[i], {}, {}};
    change.expected = take(changes[i + 1]);
    change.bytes = take(changes[i + 2]);
    operation.changes.push_back(std::move(change));
  }
  operation.allOrNone = plan.Get("allOrNone").As<Napi::Boolean>();
  operation.end = static_cast<Operation::End>(plan.Get("end").As<Napi::Number>().Int32Value());
  return schedule(info, [operation = std::move(operation), instruction = unsignedOf(info[0])](TracedProcess& process) -> Finish {
    const OperationResult result = fastprobe::operate(process, operation, instruction);
    const double held = process.stopMicroseconds();
    return [result, held](Napi::Env env) {
      Napi::Object object = Napi::Object::New(env);
      const auto set = [&](const char* name, auto array, const auto& values) {
        std::copy(values.begin(), values.end(), array.Data());
        object.Set(name, array);
      };
      set("results", Napi::BigInt64Array::New(env, result.results.size()), result.results);
      set("mismatches", Napi::Int32Array::New(env, result.mismatches.size()), result.mismatches);
      set("tids", Napi::Int32Array::New(env, result.tids.size()), result.tids);
      set("threadPointers", Napi::BigUint64Array::New(env, result.threadPointers.size()), result.threadPointers);
      object.Set("descriptor", Napi::Number::New(env, result.descriptor));
      object.Set("heldMicroseconds", Napi::Number::New(env, held));
      return object;
    };
  });
}

Napi::Value TargetObject::wantSignals(const Napi::CallbackInfo& info) {
  return schedule(info, [want = info[0].As<Napi::Boolean>().Value()](TracedProcess& process) -> Finish {
    process.wantSignalEvents(want);
    return undefined;
  });
}

/// A launched program that was let go is waited for, but Node need not stay alive for it.
void TargetObject::unref(const Napi::CallbackInfo& info) {
  if (!link_->ended) link_->toJavaScriptThread.Unref(info.Env());
}

}  // namespace fastprobe
