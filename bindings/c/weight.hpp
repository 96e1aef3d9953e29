// A packed weight as C holds it: its memory, and the arguments that it is to its operator.
#pragma once

#include <cstddef>
#include <deque>

#include <inlay/weights/linear_w4a16_pack.hpp>

#include "bindings/c/call.hpp"

struct inlay_weight {
  const char* op = nullptr;
  inlay::index n = 0, k = 0;
  std::deque<inlay::AlignedBytes> memory;
  inlay::PackedW4 w4;
  inlay::c::Call call;  // looks at the two above

  inlay_weight() = default;
  inlay_weight(const inlay_weight&) = delete;

  std::size_t bytes() const {
    std::size_t sum = w4.bytes();
    for (const inlay::AlignedBytes& each : memory) sum += each.size();
    return sum;
  }
  // Memory that the weight keeps, as a view of it.
  template <int rank> inlay::View<rank> make(inlay::DType dtype, const std::array<inlay::index, rank>& extents) {
    inlay::index elements = 1;
    for (inlay::index extent : extents) elements *= extent;
    memory.emplace_back(static_cast<std::size_t>(inlay::byte_size(dtype, elements)));
    return {memory.back().data(), dtype, extents};
  }
};
