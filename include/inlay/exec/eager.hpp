// Runs operators as they come, on the backend that was chosen at run time. The first failure stays
// and turns what follows into nothing, so that a model is written as a straight line of operators:
//
//   Eager run{Cpu{}};
//   run(RmsNorm<Host>{...});
//   run(Linear<Host>{...});
//   if (Status status = run.take_status(); !status.ok()) ...
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <variant>

#include <inlay/core/backend.hpp>
#include <inlay/cpu.hpp>

namespace inlay::exec {

class Eager {
 public:
  explicit Eager(Cpu cpu) : backend_(std::move(cpu)) {}
  explicit Eager(Reference reference) : backend_(reference) {}

  template <class Op> void operator()(const Op& op) {
    if (!status_.ok()) return;
    status_ = std::visit([&](auto& backend) { return run_on(backend, op); }, backend_);
  }

  bool ok() const { return status_.ok(); }
  // The first failure since the last call.
  Status take_status() { return std::exchange(status_, Status()); }

  std::string_view backend() const { return std::holds_alternative<Cpu>(backend_) ? "cpu" : "reference"; }
  // Threads for host work beside the operators: packing, for example.
  Parallel parallel() const {
    const Cpu* cpu = std::get_if<Cpu>(&backend_);
    return cpu ? cpu->parallel() : serial();
  }

 private:
  template <class Backend, class Op> Status run_on(Backend& backend, const Op& op) {
    return run(backend, op, [this](std::size_t bytes) { return scratch(bytes); });
  }
  Workspace scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      scratch_.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(workspace_alignment))));
      scratch_bytes_ = bytes;
    }
    return {scratch_.get(), bytes};
  }

  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(workspace_alignment)); }
  };
  std::variant<Cpu, Reference> backend_;
  Status status_;
  std::unique_ptr<std::byte, Free> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace inlay::exec
