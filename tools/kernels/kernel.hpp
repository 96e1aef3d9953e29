// Somebody's kernel: a shared library with a function of the form of inlay_run (bindings/c/inlay.h), for one operator
// or several.
#pragma once

#include <inlay/core/status.hpp>

#include <memory>
#include <string>

#include "bindings/c/call.hpp"

namespace inlay::tools {

class Kernel {
 public:
  // `symbol`: the name of its function. Where the library also has inlay_backend_open, as libinlay.so has, the function
  // is given a backend that it has opened, else none.
  static Expected<Kernel> load(const std::string& path, const std::string& symbol);

  inlay_code run(const char* op, const c::Call& call) const {
    return run_(backend_.get(), op, call.arguments.data(), call.arguments.size(), nullptr, 0);
  }
  // What inlay_message of the library says, where it has one.
  std::string message() const;

 private:
  Kernel() = default;
  std::shared_ptr<void> library_;
  decltype(&inlay_run) run_ = nullptr;
  decltype(&inlay_message) message_ = nullptr;
  std::shared_ptr<inlay_backend> backend_;
};

}  // namespace inlay::tools
