#include "bindings/c/backend.hpp"

#include <limits>
#include <memory>
#include <string_view>

#include <inlay/core/quote.hpp>
#include <inlay/core/text.hpp>
#include <inlay/core/threads.hpp>

#include "bindings/c/code.hpp"
#include "bindings/c/sized.hpp"

namespace inlay::c {

namespace {

// What a task is to the caller's threads: it counts those that were done, and lets nothing that is thrown out.
struct Job {
  void (*task)(void* data, index i);
  void* data;
  std::atomic<std::size_t> done{0}, thrown{0};
};

void run_task(void* data, std::size_t i) {
  Job& job = *static_cast<Job*>(data);
  try {
    job.task(job.data, static_cast<index>(i));
  } catch (...) {
    job.thrown.fetch_add(1, std::memory_order_relaxed);
  }
  job.done.fetch_add(1, std::memory_order_release);
}

Status open_reference(const inlay_backend_options& options, inlay_backend& backend) {
  backend.is_cpu = false;
  if (options.isa != nullptr || options.threads != 0 || options.run != nullptr)
    return invalid(Text("backend reference has no ") + (options.isa != nullptr ? "isa" : "threads") +
                   "; it must be left out");
  return {};
}

Status open_cpu(const inlay_backend_options& options, inlay_backend& backend) {
  if (options.isa != nullptr) {
    const auto isa = available_isa(options.isa);
    if (!isa) return about("isa", isa.error());
    backend.isa = *isa;
  } else {
    backend.isa = Cpu(serial()).isa();
  }
  if (options.threads < 0 || options.threads > Threads::most)
    return invalid("threads is " + number(options.threads) + "; it must be in 0.." + number(Threads::most));
  if (options.run == nullptr) {
    if (options.width != 0 || options.context != nullptr)
      return invalid(Text(options.width != 0 ? "width" : "context") + " is given without run; it must be left out");
    backend.own = options.threads == 1 ? serial() : threads(options.threads);
    return {};
  }
  if (options.threads != 0)
    return invalid("threads is " + number(options.threads) + ", and run brings others; it must be 0");
  if (options.width < 1 || options.width > Threads::most)
    return invalid("width is " + number(options.width) + "; it must be in 1.." + number(Threads::most));
  backend.run = options.run, backend.context = options.context, backend.width = options.width;
  return {};
}

Status open(const inlay_backend_options* given, inlay_backend** result) {
  if (result == nullptr) return invalid("backend is null; it must be where the backend is put");
  *result = nullptr;
  inlay_backend_options options{};
  using O = inlay_backend_options;
  if (Status status =
          read_sized("inlay_backend_options", given, options,
                     {INLAY_MEMBER(O, size), INLAY_MEMBER(O, name), INLAY_MEMBER(O, isa), INLAY_MEMBER(O, threads),
                      INLAY_MEMBER(O, width), INLAY_MEMBER(O, run), INLAY_MEMBER(O, context)});
      !status.ok())
    return status;
  const std::string_view name = options.name == nullptr ? "cpu" : options.name;
  auto backend = std::make_unique<inlay_backend>();
  if (name == "reference") {
    if (Status status = open_reference(options, *backend); !status.ok()) return status;
  } else if (name == "cpu") {
    if (Status status = open_cpu(options, *backend); !status.ok()) return status;
  } else if (name == "cl" || name == "npu") {
    return unsupported("name is " + Text(quote(name)) +
                       ", which computes in a device's memory, and in C there are tensors of host memory only; it must "
                       "be 'cpu' or 'reference'");
  } else {
    return invalid("name is " + Text(quote(name)) + "; it must be 'cpu' or 'reference'");
  }
  *result = backend.release();
  return {};
}

}  // namespace

void CallersThreads::run(void* context, index tasks, void (*task)(void* data, index i), void* data) {
  auto& self = *static_cast<CallersThreads*>(context);
  Job job{task, data};
  const auto wanted = static_cast<std::size_t>(tasks);
  self.backend_->run(self.backend_->context, wanted, run_task, &job);
  const std::size_t done = job.done.load(std::memory_order_acquire);
  if (done != wanted) self.not_done_.fetch_add(done < wanted ? wanted - done : done - wanted);
  self.thrown_.fetch_add(job.thrown.load());
}

Status CallersThreads::outcome() const {
  if (const std::size_t tasks = not_done_.load(); tasks != 0)
    return {StatusCode::internal, "the backend's run left out " + number(tasks) +
                                      " tasks or ran them twice; it must do each once before it returns"};
  if (thrown_.load() != 0) return {StatusCode::internal, number(thrown_.load()) + " tasks threw an exception"};
  return {};
}

}  // namespace inlay::c

inlay_code inlay_backend_open(const inlay_backend_options* options, inlay_backend** backend) {
  return inlay::c::guarded([&] { return inlay::c::open(options, backend); });
}
void inlay_backend_close(inlay_backend* backend) { delete backend; }
