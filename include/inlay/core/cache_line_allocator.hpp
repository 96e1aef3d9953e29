// For std::vector: memory that begins on a cache line's boundary, after copying too; much of it in huge pages.
#pragma once

#include <cstddef>
#include <new>

#include <inlay/core/huge_pages.hpp>

namespace inlay {

template <class T> struct CacheLineAllocator {
  static constexpr std::align_val_t line{64};

  using value_type = T;
  CacheLineAllocator() = default;
  template <class U> CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(std::size_t n) {
    void* const memory = ::operator new(n * sizeof(T), line);
    want_huge_pages(memory, n * sizeof(T));
    return static_cast<T*>(memory);
  }
  void deallocate(T* p, std::size_t) { ::operator delete(p, line); }
  bool operator==(const CacheLineAllocator&) const { return true; }
};

}  // namespace inlay
