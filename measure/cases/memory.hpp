// Memory in which an access next to an operand faults: each operand lies in a room of its own, between pages that
// nobody may touch, right before the one behind it or right behind the one before it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <inlay/core/view.hpp>
#include <inlay/core/workspace.hpp>

namespace inlay::cases {

// Rooms of equal size, each with a page in front and one behind.
class Rooms {
 public:
  Rooms(std::size_t count, std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    room_ = (bytes + page_ - 1) / page_ * page_;
    all_ = count * (room_ + page_) + page_;
    void* const memory = mmap(nullptr, all_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no address space");
    memory_ = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < count; ++i)
      if (mprotect(begin(i), room_, PROT_READ | PROT_WRITE) != 0) throw std::runtime_error("no guard pages");
  }
  Rooms(const Rooms&) = delete;
  Rooms& operator=(const Rooms&) = delete;
  ~Rooms() { munmap(memory_, all_); }

  std::size_t bytes() const { return room_; }
  std::byte* begin(std::size_t room) const { return memory_ + page_ + room * (room_ + page_); }
  std::byte* end(std::size_t room) const { return begin(room) + room_; }

 private:
  std::size_t page_, room_, all_;
  std::byte* memory_;
};

// The bytes of one operand, and what they hold before each call.
struct Placed {
  std::byte* begin;
  std::size_t bytes;
  std::vector<std::byte> before = {};
};

// From the lowest byte of a view to its end, and where its first element lies in it.
struct Extent {
  bool fits = false;
  std::size_t bytes = 0, first = 0;
};
template <class V> Extent extent_of(const V& view, std::size_t most) {
  if (static_cast<int>(view.dtype) >= dtype_count) return {};  // of no size
  for (index extent : view.extents)
    if (extent <= 0) return {true, 0, 0};
  index low = 0, high = 0;
  for (int d = 0; d < V::rank; ++d) {
    const double reach = static_cast<double>(view.strides[d]) * static_cast<double>(view.extents[d] - 1);
    if (std::abs(reach) > 0x1p40) return {};
    (reach < 0 ? low : high) += view.strides[d] * (view.extents[d] - 1) * bits(view.dtype);
  }
  const index front = (-low + 7) / 8 * 8;  // whole bytes, so that the first element begins with one
  const std::size_t bytes = static_cast<std::size_t>((front + high + bits(view.dtype) + 7) / 8);
  if (bytes > most) return {};
  return {true, bytes, static_cast<std::size_t>(front / 8)};
}

// Scratch of exactly the bytes asked for: the workspace ends where the page begins.
class ScratchRoom {
 public:
  static constexpr std::size_t most = std::size_t{1} << 28;

  // Left as the last call left it, or filled with NaN.
  Workspace take(std::size_t bytes, bool poison) {
    if (bytes == 0) return {};
    const std::size_t aligned = (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
    std::byte* const begin = rooms_.end(0) - aligned;
    if (poison) std::memset(begin, 0xff, bytes);
    return {begin, bytes};
  }

 private:
  Rooms rooms_{1, most};
};

}  // namespace inlay::cases
