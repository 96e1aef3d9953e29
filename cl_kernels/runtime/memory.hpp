// Buffers by size: what is released is given out again. The queue is in order, so a buffer that a kernel still reads
// may be given to the next one.
#pragma once

#include <CL/cl.h>

#include <map>
#include <unordered_map>
#include <vector>

#include <inlay/cl.hpp>

namespace inlay::cl {

struct Buffer {
  std::size_t bytes = 0;
  std::ptrdiff_t misalignment = 0;  // its address by 64: 0 but over memory of the host's, which may begin anywhere
};

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
  // Of any buffer: what allocate or map was asked for, of an engine's own what the driver tells.
  Expected<Buffer> about(cl_mem buffer) const;
  // Grows when one of them is given back to the driver: from then on its handle may be another buffer's.
  std::size_t gone() const { return gone_; }

 private:
  struct Used {
    Buffer buffer;
    std::size_t size;  // to be given out again; 0: memory of the host's
  };

  void release_unused();

  cl_context context_;
  const ClDevice& record_;
  std::map<std::size_t, std::vector<cl_mem>> unused_;
  std::unordered_map<cl_mem, Used> used_;
  std::size_t allocations_ = 0, gone_ = 0;
};

}  // namespace inlay::cl
