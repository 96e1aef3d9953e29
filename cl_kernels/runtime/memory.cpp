#include "cl_kernels/runtime/memory.hpp"

#include <bit>

#include "cl_kernels/runtime/errors.hpp"

namespace inlay::cl {

namespace {

// The size of the buffer that `bytes` get: an eighth of its power of two at most is given away.
std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) return smallest;
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Memory::~Memory() {
  release_unused();
  for (auto& [buffer, bytes] : used_) clReleaseMemObject(buffer);
}

Expected<cl_mem> Memory::allocate(std::size_t bytes) {
  const auto what = [&] { return std::to_string(bytes) + " bytes on " + record_.name; };
  if (bytes > record_.max_allocation)
    return failure(StatusCode::out_of_memory, what() + ": one buffer may have at most " +
                                                  std::to_string(record_.max_allocation) + " there");
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
  used_.emplace(buffer, size);
  return buffer;
}

void Memory::release(cl_mem buffer) {
  const auto known = used_.find(buffer);
  if (known == used_.end()) return;
  unused_[known->second].push_back(buffer);
  used_.erase(known);
}

void Memory::release_unused() {
  for (auto& [size, buffers] : unused_)
    for (cl_mem buffer : buffers) clReleaseMemObject(buffer);
  unused_.clear();
}

}  // namespace inlay::cl
