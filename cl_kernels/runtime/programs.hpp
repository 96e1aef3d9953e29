// Programs of one device: built when first needed, kept in memory and, where the user names a directory, on disk.
#pragma once

#include <CL/cl.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <inlay/cl.hpp>

#include "cl_kernels/runtime/variant.hpp"

namespace inlay::cl {

// A kernel object and the numbers that its arguments were set to: those that stay from launch to launch are not set
// again. Buffers always are: another one may have been given the handle of one that is gone.
class Kernel {
 public:
  Kernel(const char* name, cl_kernel object) : name_(name), object_(object) {}
  Kernel(const Kernel&) = delete;
  ~Kernel() { clReleaseKernel(object_); }

  const char* name() const { return name_; }
  cl_kernel object() const { return object_; }

  cl_int set(cl_uint argument, cl_mem buffer) { return clSetKernelArg(object_, argument, sizeof buffer, &buffer); }
  template <class Number> cl_int set(cl_uint argument, const Number& number) {
    if (argument >= known_.size()) known_.resize(argument + 1);
    Known& known = known_[argument];
    if (known.bytes == sizeof number && std::memcmp(&values_[known.at], &number, sizeof number) == 0) return CL_SUCCESS;
    const cl_int error = clSetKernelArg(object_, argument, sizeof number, &number);
    if (error != CL_SUCCESS) return error;
    if (known.bytes != sizeof number) {
      known = {values_.size(), sizeof number};
      values_.resize(known.at + known.bytes);
    }
    std::memcpy(&values_[known.at], &number, sizeof number);
    return error;
  }

 private:
  struct Known {
    std::size_t at = 0, bytes = 0;  // none: not known
  };

  const char* name_;
  cl_kernel object_;
  std::vector<Known> known_;
  std::vector<std::byte> values_;
};

// Runs a probe's kernel on one buffer, in one group of `items`; what it makes of the bytes comes back. False where a
// call fails.
bool run_probe(cl_context context, cl_command_queue queue, Kernel& kernel, std::size_t items, void* data,
               std::size_t bytes);

class Programs {
 public:
  // `options` is what every program of the device is built with.
  Programs(cl_context context, cl_device_id device, const ClDevice& record, std::string options, std::string cache)
      : context_(context), device_(device), record_(record), options_(std::move(options)), cache_(std::move(cache)) {}
  Programs(const Programs&) = delete;
  ~Programs();

  // The same object each time: its arguments are those of the last launch. `name` is a literal.
  Expected<Kernel*> kernel(const Variant& variant, const char* name);
  // As above for a text of one's own: probes, and a kernel that does not build. `refused`: was it by the compiler?
  Expected<cl_program> build(std::string_view text, const std::string& options, const std::string& what,
                             bool* refused = nullptr);

 private:
  struct Program {
    cl_program object;
    std::vector<std::unique_ptr<Kernel>> kernels;
  };

  Expected<Program*> program(const Variant& variant);
  Expected<cl_program> load_or_build(const Variant& variant);
  Expected<cl_program> load(const std::string& file, const std::string& key);
  void save(cl_program program, const std::string& file, const std::string& key) const;
  std::string cache_key(std::string_view text, std::string_view options) const;

  cl_context context_;
  cl_device_id device_;
  const ClDevice& record_;
  std::string options_, cache_;
  std::unordered_map<Variant, Program, Variant::Hash> programs_;
};

}  // namespace inlay::cl
