// What the tests of one level's primitives share: its registers as numbers, and memory that ends where it is said to.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu_kernels/simd/floats.hpp"

namespace inlay {

using Level = isa::INLAY_LEVEL;
using F = simd::Floats<Level>;
inline constexpr index N = F::size;
inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

using Lanes = std::array<float, N>;
inline Lanes lanes(F v) {
  Lanes out;
  v.store(out.data());
  return out;
}

// The bits, so that signs of zeros and payloads of NaN count.
inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// Memory whose end, and whose begin, is the end of what may be touched: beyond it a load faults as a store does.
class Page {
 public:
  Page() : size_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* all = mmap(nullptr, 3 * size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = static_cast<char*>(all) + size_;
    mprotect(memory_, size_, PROT_READ | PROT_WRITE);
  }
  ~Page() { munmap(memory_ - size_, 3 * size_); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  template <class T> T* begin() { return reinterpret_cast<T*>(memory_); }
  // Where `count` elements end at the end.
  template <class T> T* before_the_end(index count) { return reinterpret_cast<T*>(memory_ + size_) - count; }

 private:
  std::size_t size_;
  char* memory_;
};

}  // namespace inlay
