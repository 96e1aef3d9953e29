// For std::vector: memory that begins on a cache line's boundary, after copying too.
#pragma once

#include <cstddef>
#include <new>

namespace inlay {

template <class T> struct CacheLineAllocator {
  static constexpr std::align_val_t line{64};

  using value_type = T;
  CacheLineAllocator() = default;
  template <class U> CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), line)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, line); }
  bool operator==(const CacheLineAllocator&) const { return true; }
};

}  // namespace inlay
