// Programs of one device: built when first needed, kept in memory and, where the user names a directory, on disk.
#pragma once

#include <CL/cl.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <inlay/cl.hpp>

#include "cl_kernels/runtime/memory.hpp"
#include "cl_kernels/runtime/program_key.hpp"

namespace inlay::cl {

// A kernel object and what its arguments were set to: those that stay from launch to launch are not set again.
class Kernel {
 public:
  explicit Kernel(cl_kernel object) : object_(object) {}
  Kernel(const Kernel&) = delete;
  ~Kernel() { clReleaseKernel(object_); }

  cl_kernel object() const { return object_; }

  // Was no argument set yet?
  bool is_new() const { return known_.empty(); }
  // A struct, a number, or a buffer that lives as long as the kernel.
  cl_int set_bytes(cl_uint argument, std::span<const std::byte> value) {
    Known& known = this->known(argument);
    return holds(known, value) ? CL_SUCCESS : set_anew(known, argument, value);
  }
  template <class Value> cl_int set(cl_uint argument, const Value& value) {
    return set_bytes(argument, std::as_bytes(std::span(&value, 1)));
  }
  // A buffer that may be gone one day, and its handle another's: an engine's own is set each time.
  cl_int set(cl_uint argument, cl_mem buffer, const Memory& memory) {
    Known& known = this->known(argument);
    const auto handle = std::as_bytes(std::span(&buffer, 1));
    const bool same = known.as_of == memory.gone() && holds(known, handle);
    if (same && known.is_kept) return CL_SUCCESS;
    const cl_int error = set_anew(known, argument, handle);
    if (error != CL_SUCCESS || same) return error;
    known.as_of = memory.gone();
    known.is_kept = buffer == nullptr || memory.owns(buffer);
    return error;
  }

 private:
  struct Known {
    std::size_t at = 0, bytes = 0;  // none: not known
    bool is_kept = false;           // a buffer that was Memory's when
    std::size_t as_of = 0;          // so many of its buffers were gone
  };

  Known& known(cl_uint argument) {
    if (argument >= known_.size()) known_.resize(argument + 1);
    return known_[argument];
  }
  bool holds(const Known& known, std::span<const std::byte> value) const {
    return known.bytes == value.size() && std::memcmp(&values_[known.at], value.data(), value.size()) == 0;
  }
  cl_int set_anew(Known& known, cl_uint argument, std::span<const std::byte> value) {
    const cl_int error = clSetKernelArg(object_, argument, value.size(), value.data());
    if (error != CL_SUCCESS) return error;
    if (known.bytes != value.size()) {
      known.at = values_.size();
      known.bytes = value.size();
      values_.resize(known.at + known.bytes);
    }
    std::memcpy(&values_[known.at], value.data(), value.size());
    return error;
  }

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

  // Whoever launches asks once for each launch: the n-th of a kernel in a step gets its n-th object, with the arguments
  // of the n-th launch of the step before. A model's steps are alike, its layers are not. `name` is a literal.
  Expected<Kernel*> kernel(const ProgramKey& key, const char* name);
  // An object that nobody else gets.
  Expected<std::unique_ptr<Kernel>> new_kernel(const ProgramKey& key, const char* name);
  void begin_step() { ++step_; }
  // Are programs built so that kernels tell the names and types of their arguments (-cl-kernel-arg-info)?
  bool tell_arguments() const { return options_.find("-cl-kernel-arg-info") != std::string::npos; }
  // As above for a text of one's own: probes, and a kernel that does not build. `refused`: was it by the compiler?
  Expected<cl_program> build(std::string_view text, const std::string& options, const std::string& what,
                             bool* refused = nullptr);

 private:
  // An engine that waits by itself never ends a step: after so many launches they begin anew.
  static constexpr std::size_t max_launches = 1024;

  struct Launches {
    const char* name;
    std::vector<std::unique_ptr<Kernel>> objects = {};
    std::size_t next = 0;
    std::size_t step = 0;
  };
  struct Program {
    cl_program object;
    std::vector<Launches> kernels = {};

    Launches& of(const char* name);
  };

  Expected<Program*> program(const ProgramKey& key);
  static Expected<std::unique_ptr<Kernel>> new_kernel(const Program& program, const ProgramKey& key, const char* name);
  Expected<cl_program> load_or_build(const ProgramKey& key);
  Expected<cl_program> load(const std::string& file, const std::string& key);
  void save(cl_program program, const std::string& file, const std::string& key) const;
  std::string cache_key(std::string_view text, std::string_view options) const;

  cl_context context_;
  cl_device_id device_;
  const ClDevice& record_;
  std::string options_, cache_;
  std::unordered_map<ProgramKey, Program, ProgramKey::Hash> programs_;
  std::size_t step_ = 1;
};

}  // namespace inlay::cl
