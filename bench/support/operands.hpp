// Operands for benchmarks: random, and enough copies of each to outgrow the caches. They lie in huge pages,
// as the memory does that the read limit is measured on.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/core/workspace.hpp>

#include "measure/memory.hpp"
#include "measure/timing.hpp"
#include "shapes/tensors.hpp"

namespace inlay::bench {

// An extent of a model, or what a test needs of it: still several of every tile.
inline index cut(index extent, index most = 256) { return measure::short_run() ? std::min(extent, most) : extent; }

// `bytes` of random elements of a range; of i4 and u4 any.
void fill_random(std::byte* data, DType dtype, index bytes, Tensors::Range range);
// The first `bytes` again and again, up to `all`.
void repeat(std::byte* data, index bytes, index all);

// The tensors of a figure's calls, which ask for the same ones in the same order: call i has copy i of those that are
// not kept.
class Operands : public Tensors {
 public:
  explicit Operands(bool rotate = true) : rotate_(rotate) {}

  Operands& of_call(index i) {
    call_ = i;
    next_ = 0;
    return *this;
  }

 protected:
  Placed place(const Tensor& tensor) override;

 private:
  struct Copies {
    index bytes, count;
    measure::Memory memory;
  };
  bool rotate_;
  index call_ = 0;
  std::size_t next_ = 0;
  std::deque<Copies> all_;
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
