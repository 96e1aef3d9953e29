#include "cl_kernels/runtime/staging.hpp"

#include <algorithm>
#include <utility>

namespace inlay::cl {

Staging::~Staging() {
  if (buffer_ == nullptr) return;
  clEnqueueUnmapMemObject(queue_, buffer_, memory_.data(), 0, nullptr, nullptr);
  clReleaseMemObject(buffer_);
}

const std::byte* Staging::keep(std::span<const std::byte> from) {
  if (memory_.empty()) {
    if (pins_) pin();
    if (memory_.empty()) {
      ordinary_.resize(ordinary_bytes);
      memory_ = ordinary_;
    }
  }
  if (from.size() > memory_.size() - used_) return nullptr;
  std::byte* const copy = memory_.data() + used_;
  std::copy(from.begin(), from.end(), copy);
  used_ += from.size();
  return copy;
}

void Staging::leave() {
  buffer_ = nullptr;
  static_cast<void>(new std::vector<std::byte>(std::move(ordinary_)));
}

// What a driver does not pin is copied from ordinary memory.
void Staging::pin() {
  cl_int error = CL_SUCCESS;
  cl_mem const buffer =
      clCreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, pinned_bytes, nullptr, &error);
  if (error != CL_SUCCESS) return;
  void* const mapped = clEnqueueMapBuffer(queue_, buffer, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, pinned_bytes, 0,
                                          nullptr, nullptr, &error);
  if (error != CL_SUCCESS) {
    clReleaseMemObject(buffer);
    return;
  }
  buffer_ = buffer;
  memory_ = {static_cast<std::byte*>(mapped), pinned_bytes};
}

}  // namespace inlay::cl
