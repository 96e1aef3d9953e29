// Buffers by size: what is released is given out again. The queue is in order, so a buffer that a kernel still reads
// may be given to the next one.
#pragma once

#include <CL/cl.h>

#include <map>
#include <vector>

#include <inlay/cl.hpp>

namespace inlay::cl {

class Memory {
 public:
  Memory(cl_context context, const ClDevice& record) : context_(context), record_(record) {}
  Memory(const Memory&) = delete;
  ~Memory();

  Expected<cl_mem> allocate(std::size_t bytes);
  // Null where the device would copy it.
  Expected<cl_mem> map(std::span<const std::byte> host);
  void release(cl_mem buffer);
  std::size_t allocations() const { return allocations_; }
  bool owns(cl_mem buffer) const { return used_.contains(buffer); }
  // Grows when one of them is given back to the driver: from then on its handle may be another buffer's.
  std::size_t gone() const { return gone_; }

 private:
  void release_unused();

  cl_context context_;
  const ClDevice& record_;
  std::map<std::size_t, std::vector<cl_mem>> unused_;
  std::map<cl_mem, std::size_t> used_;  // the size to be given out again; 0: memory of the host's
  std::size_t allocations_ = 0, gone_ = 0;
};

}  // namespace inlay::cl
