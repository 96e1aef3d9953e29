// Programs of one device: built when first needed, kept in memory and, where the user names a directory, on disk.
#pragma once

#include <CL/cl.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include <inlay/cl.hpp>

#include "cl_kernels/runtime/variant.hpp"

namespace inlay::cl {

class Programs {
 public:
  // `options` is what every program of the device is built with.
  Programs(cl_context context, cl_device_id device, const ClDevice& record, std::string options, std::string cache)
      : context_(context), device_(device), record_(record), options_(std::move(options)), cache_(std::move(cache)) {}
  Programs(const Programs&) = delete;
  ~Programs();

  // The same object each time: its arguments are those of the last launch.
  Expected<cl_kernel> kernel(const Variant& variant, const char* name);
  // As above for a text of one's own: probes, and a kernel that does not build.
  Expected<cl_program> build(std::string_view text, const std::string& options, const std::string& what);

 private:
  Expected<cl_program> program(const Variant& variant);
  Expected<cl_program> load(const std::string& file, const std::string& key);
  void save(cl_program program, const std::string& file, const std::string& key) const;
  std::string cache_key(std::string_view text, std::string_view options) const;

  cl_context context_;
  cl_device_id device_;
  const ClDevice& record_;
  std::string options_, cache_;
  std::unordered_map<std::string, cl_program> programs_;
  std::unordered_map<std::string, cl_kernel> kernels_;  // by the variant's key and the kernel's name
};

}  // namespace inlay::cl
