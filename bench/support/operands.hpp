// Operands for benchmarks: random, and enough copies of each to outgrow the caches. They lie in huge pages,
// as the memory does that the read limit is measured on.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/core/workspace.hpp>

#include "measure/memory.hpp"
#include "measure/timing.hpp"

namespace inlay::bench {

// An extent of a model, or what a test needs of it: still several of every tile.
inline index cut(index extent, index most = 256) { return measure::short_run() ? std::min(extent, most) : extent; }

// `bytes` of random elements: floats in -1..1, integers over their whole range (i32 and i64: -1..1).
void fill_random(std::byte* data, DType dtype, index bytes);
// The first `bytes` again and again, up to `all`.
void repeat(std::byte* data, index bytes, index all);

template <int Rank> class Operand {
 public:
  using Extents = std::array<index, Rank>;

  // `rotate`: copies until they take 256 MiB, however small one is; what every call reads again (weights of a norm,
  // activations) has one.
  Operand(DType dtype, const Extents& extents, bool rotate = true)
      : dtype_(dtype),
        extents_(extents),
        bytes_((byte_size(dtype, View<Rank>(nullptr, dtype, extents).size()) + 63) / 64 * 64),
        copies_(!rotate                ? 1
                : measure::short_run() ? 2
                                       : std::max<index>(total / std::max<index>(bytes_, 1), 1)),
        memory_(static_cast<std::size_t>(bytes_ * copies_)) {
    fill_random(memory_.data(), dtype, bytes_);
    spread();
  }

  index copies() const { return copies_; }
  View<Rank> view(index iteration) const { return {memory_.data() + iteration % copies_ * bytes_, dtype_, extents_}; }
  // Gives every copy what the first one holds.
  void spread() const { repeat(memory_.data(), bytes_, bytes_ * copies_); }

 private:
  static constexpr index total = index{256} << 20;
  DType dtype_;
  Extents extents_;
  index bytes_, copies_;
  measure::Memory memory_;
};

// A workspace of the size that the operator asks for, kept over the calls.
class BenchWorkspace {
 public:
  explicit BenchWorkspace(std::size_t bytes)
      : size_(bytes), memory_(static_cast<std::byte*>(::operator new(bytes + 1, std::align_val_t(64)))) {}
  operator Workspace() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace inlay::bench
