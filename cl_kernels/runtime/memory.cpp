#include "cl_kernels/runtime/memory.hpp"

#include <bit>
#include <cstdint>

#include <inlay/cl_errors.hpp>

namespace inlay::cl {

namespace {

// The size of the buffer that `bytes` get: an eighth of its power of two at most is given away.
std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) return smallest;
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

std::ptrdiff_t misalignment(const void* host) {
  return static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(host) % workspace_alignment);
}

}  // namespace

Memory::~Memory() {
  release_unused();
  for (auto& [buffer, used] : used_) clReleaseMemObject(buffer);
}

Expected<cl_mem> Memory::allocate(std::size_t bytes) {
  const auto what = [&] { return std::to_string(bytes) + " bytes on " + record_.name; };
  if (bytes > record_.max_allocation)
    return failure(StatusCode::out_of_memory,
                   what() + ": one buffer may have at most " + std::to_string(record_.max_allocation) + " there");
  std::size_t size = size_class(bytes);
  if (size > record_.max_allocation) size = bytes;
  cl_mem buffer = nullptr;
  if (auto& free = unused_[size]; !free.empty()) {
    buffer = free.back();
    free.pop_back();
  } else {
    const cl_mem_flags flags = CL_MEM_READ_WRITE | (record_.shares_memory ? CL_MEM_ALLOC_HOST_PTR : 0);
    cl_int error = CL_SUCCESS;
    buffer = clCreateBuffer(context_, flags, size, nullptr, &error);
    if (error != CL_SUCCESS) {  // the pool may hold what is missing
      release_unused();
      buffer = clCreateBuffer(context_, flags, size, nullptr, &error);
    }
    if (error != CL_SUCCESS) return failure(error_status(error, what()));
    ++allocations_;
  }
  used_.emplace(buffer, Used{{.bytes = bytes}, size});
  return buffer;
}

Expected<cl_mem> Memory::map(std::span<const std::byte> host) {
  // A CPU reads it from anywhere; an integrated GPU takes whole pages and copies everything else.
  constexpr std::size_t page = 4096, line = 64;
  const bool in_pages = reinterpret_cast<std::uintptr_t>(host.data()) % page == 0 && host.size() % line == 0;
  if (host.empty() || host.size() > record_.max_allocation || !(record_.is_cpu || (record_.shares_memory && in_pages)))
    return nullptr;
  cl_int error = CL_SUCCESS;
  // OpenCL has no pointer to const; CL_MEM_READ_ONLY is the promise.
  cl_mem buffer = clCreateBuffer(context_, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, host.size(),
                                 const_cast<std::byte*>(host.data()), &error);
  if (error != CL_SUCCESS)
    return failure(error_status(error, "mapping " + std::to_string(host.size()) + " bytes on " + record_.name));
  used_.emplace(buffer, Used{{host.size(), misalignment(host.data())}, 0});
  return buffer;
}

Expected<Buffer> Memory::about(cl_mem buffer) const {
  if (const auto known = used_.find(buffer); known != used_.end()) return known->second.buffer;
  std::size_t bytes = 0;
  void* host = nullptr;
  cl_int error = clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr);
  if (error == CL_SUCCESS) error = clGetMemObjectInfo(buffer, CL_MEM_HOST_PTR, sizeof host, &host, nullptr);
  if (error != CL_SUCCESS) return failure(error_status(error, "asking a buffer for its size and place"));
  return Buffer{bytes, misalignment(host)};
}

void Memory::release(cl_mem buffer) {
  const auto known = used_.find(buffer);
  if (known == used_.end()) return;
  if (known->second.size == 0) {
    ++gone_;
    clReleaseMemObject(buffer);
  } else {
    unused_[known->second.size].push_back(buffer);
  }
  used_.erase(known);
}

void Memory::release_unused() {
  ++gone_;
  for (auto& [size, buffers] : unused_)
    for (cl_mem buffer : buffers) clReleaseMemObject(buffer);
  unused_.clear();
}

}  // namespace inlay::cl
