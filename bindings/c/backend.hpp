// A backend as C holds it: what to compute on, and whose threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include <inlay/core/status.hpp>
#include <inlay/cpu.hpp>

#include "bindings/c/inlay.h"

struct inlay_backend {
  bool is_cpu = true;
  inlay::Isa isa{};
  inlay::Parallel own{};          // the library's threads
  inlay_run_tasks run = nullptr;  // or the caller's
  void* context = nullptr;
  int width = 1;
};

namespace inlay::c {

// The caller's threads as ours, and whether they did all that they were given.
class CallersThreads {
 public:
  explicit CallersThreads(const inlay_backend& backend) : backend_(&backend) {}
  CallersThreads(const CallersThreads&) = delete;
  Parallel parallel() { return {.context = this, .width = backend_->width, .run = run}; }
  // Of all calls until now: a task that nobody did has left its part of an output as it was.
  Status outcome() const;

 private:
  static void run(void* context, index tasks, void (*task)(void* data, index i), void* data);

  const inlay_backend* backend_;
  std::atomic<std::size_t> not_done_{0}, thrown_{0};
};

// What a call computes on; without a cpu the reference.
struct Computing {
  const Cpu* cpu = nullptr;
};

// body(Computing) on the backend, with its threads for the time of the call.
template <class Body> Status compute_on(const inlay_backend& backend, Body&& body) {
  if (!backend.is_cpu) return body(Computing{});
  if (backend.run == nullptr) {
    const Cpu cpu(backend.isa, backend.own);
    return body(Computing{&cpu});
  }
  CallersThreads threads(backend);
  const Cpu cpu(backend.isa, threads.parallel());
  Status status = body(Computing{&cpu});
  Status outcome = threads.outcome();
  return outcome.ok() ? std::move(status) : std::move(outcome);
}

}  // namespace inlay::c
