// A kernel that is a Python function: `python3 -m inlay._kernel` imports its file once, and is sent each case.
#pragma once

#include <sys/types.h>

#include <string>

#include <inlay/core/status.hpp>

#include "bindings/c/call.hpp"

namespace inlay::tools {

class PythonKernel {
 public:
  // Python of the environment that PATH names first, with the package `inlay`; the function has the operator's name,
  // unless `function` is another.
  static Expected<PythonKernel> start(const std::string& file, const std::string& function);
  PythonKernel(PythonKernel&& other) noexcept;
  PythonKernel& operator=(PythonKernel&&) = delete;
  ~PythonKernel();

  // In a process of its own: it ends with Python.
  inlay_code run(const char* op, const c::Call& call);
  const std::string& message() const { return message_; }
  // Another Python, where the last one did not come back.
  Status restart();

 private:
  PythonKernel(std::string file, std::string function) : file_(std::move(file)), function_(std::move(function)) {}
  void end();

  std::string file_, function_, message_;
  int socket_ = -1;
  pid_t process_ = -1;
};

}  // namespace inlay::tools
