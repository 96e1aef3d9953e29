#include "measure/memory.hpp"

#include <sys/mman.h>

#include <new>

namespace inlay::measure {

Memory::Memory(std::size_t bytes) : data_(nullptr), size_(bytes) {
  if (bytes == 0) return;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it nothing fails
#endif
  data_ = static_cast<std::byte*>(memory);
}

Memory::~Memory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace inlay::measure
