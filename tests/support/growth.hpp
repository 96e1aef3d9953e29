// What a piece of work takes: bytes of the heap at its peak, how often it asked for some, and seconds of its thread's
// processor time. Included by one file of a program, whose operators new and delete it replaces.
#pragma once

#include <malloc.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

#include "tests/support/sanitizers.hpp"

namespace inlay::test {

inline std::atomic<std::size_t> heap_bytes{0}, heap_peak{0}, heap_calls{0};

inline void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  ++heap_calls;
  const std::size_t now = heap_bytes += ::malloc_usable_size(memory);
  for (std::size_t peak = heap_peak; peak < now && !heap_peak.compare_exchange_weak(peak, now);) {
  }
  return memory;
}
inline void uncounted(void* memory) {
  if (memory != nullptr) heap_bytes -= ::malloc_usable_size(memory);
  std::free(memory);
}

// From its making on.
class Growth {
 public:
  Growth() : before_(heap_bytes), calls_(heap_calls), start_(now()) { heap_peak = before_; }

  std::size_t bytes() const { return heap_peak - before_; }
  std::size_t allocations() const { return heap_calls - calls_; }
  double seconds() const { return now() - start_; }

 private:
  static double now() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  std::size_t before_, calls_;
  double start_;
};

// What may be asked of a Growth. The address sanitizer is there for memory: its checks take several times what they
// watch, more so on a busy machine, and of time the other build tells.
inline double at_most_seconds(double seconds) {
  return address_sanitizer ? std::numeric_limits<double>::infinity() : seconds;
}

}  // namespace inlay::test

void* operator new(std::size_t size) { return inlay::test::counted(std::malloc(size)); }
void* operator new[](std::size_t size) { return inlay::test::counted(std::malloc(size)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  return inlay::test::counted(std::aligned_alloc(to, (size + to - 1) / to * to));
}
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
// What std::stable_sort asks for: null is an answer.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* const memory = std::malloc(size);
  return memory ? inlay::test::counted(memory) : nullptr;
}
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }
// What scratch is.
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  const auto to = static_cast<std::size_t>(alignment);
  void* const memory = std::aligned_alloc(to, (size + to - 1) / to * to);
  return memory ? inlay::test::counted(memory) : nullptr;
}
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { inlay::test::uncounted(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { inlay::test::uncounted(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { inlay::test::uncounted(memory); }
void operator delete(void* memory) noexcept { inlay::test::uncounted(memory); }
void operator delete[](void* memory) noexcept { inlay::test::uncounted(memory); }
void operator delete(void* memory, std::size_t) noexcept { inlay::test::uncounted(memory); }
void operator delete[](void* memory, std::size_t) noexcept { inlay::test::uncounted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { inlay::test::uncounted(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { inlay::test::uncounted(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { inlay::test::uncounted(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { inlay::test::uncounted(memory); }
