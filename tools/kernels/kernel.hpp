// Somebody's kernel: a shared library with a function of the form of inlay_run (bindings/c/inlay.h), or a Python
// function, for one operator or several.
#pragma once

#include <inlay/core/status.hpp>

#include <memory>
#include <string>

#include "bindings/c/call.hpp"
#include "tools/kernels/python_kernel.hpp"

namespace inlay::tools {

// "f32"; "" of a type that has no name here.
std::string_view name_of(DLDataType type);

class Kernel {
 public:
  // `symbol`: the name of its function. Where the library also has inlay_backend_open, as libinlay.so has, the function
  // is given a backend that it has opened, else none. Of a file .py the function has the name of the operator, unless
  // `symbol` names another.
  static Expected<Kernel> load(const std::string& path, const std::string& symbol);

  inlay_code run(const char* op, const c::Call& call) const {
    if (python_ != nullptr) return python_->run(op, call);
    return run_(backend_.get(), op, call.arguments.data(), call.arguments.size(), nullptr, 0);
  }
  // What inlay_message of the library says, where it has one, or what Python has raised.
  std::string message() const;
  // Behind a call that did not come back: what the processes of cases share is made anew.
  Status recover() const { return python_ != nullptr ? python_->restart() : Status(); }

 private:
  Kernel() = default;
  std::shared_ptr<PythonKernel> python_;
  std::shared_ptr<void> library_;
  decltype(&inlay_run) run_ = nullptr;
  decltype(&inlay_message) message_ = nullptr;
  std::shared_ptr<inlay_backend> backend_;
};

}  // namespace inlay::tools
