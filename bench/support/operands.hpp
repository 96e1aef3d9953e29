// Operands for benchmarks: random, and enough copies of each to outgrow the caches. They lie in huge pages,
// as the memory does that the read limit is measured on.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/core/staging.hpp>
#include <inlay/cpu.hpp>

#include "bench/support/measure.hpp"
#include "measure/memory.hpp"

namespace inlay::bench {

template <int Rank> class Operand {
 public:
  using Extents = std::array<index, Rank>;

  // `rotate`: copies until they take 256 MiB; small tensors (weights of a norm) need one.
  Operand(DType dtype, const Extents& extents, bool rotate = true)
      : dtype_(dtype),
        extents_(extents),
        bytes_((byte_size(dtype, View<Rank>(nullptr, dtype, extents).size()) + 63) / 64 * 64),
        copies_(rotate ? std::clamp<index>(total / std::max<index>(bytes_, 1), 1, 4096) : 1),
        memory_(static_cast<std::size_t>(bytes_ * copies_)) {
    std::mt19937 rng(1);
    std::uniform_real_distribution<double> values(-1, 1);
    const index size = view(0).size();
    const double scale = dtype == DType::i8 ? 127 : dtype == DType::i4 ? 7 : 1;
    for (index i = 0; i < size; ++i) store_element(memory_.data(), dtype, i, scale * values(rng));
    for (index copy = 1; copy < copies_; ++copy)
      std::memcpy(memory_.data() + copy * bytes_, memory_.data(), static_cast<std::size_t>(bytes_));
  }

  index copies() const { return copies_; }
  View<Rank> view(index iteration) const {
    return {memory_.data() + iteration % copies_ * bytes_, dtype_, extents_};
  }

 private:
  static constexpr index total = index{256} << 20;
  DType dtype_;
  Extents extents_;
  index bytes_, copies_;
  measure::Memory memory_;
};

// A workspace of the size that the operator asks for, kept over the iterations.
class BenchWorkspace {
 public:
  explicit BenchWorkspace(std::size_t bytes)
      : size_(bytes), memory_(static_cast<std::byte*>(::operator new(bytes + 1, std::align_val_t(64)))) {}
  operator Workspace() { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

// Largest |backend - reference| of `output`, in units of ulps * eps(f32) * max|reference| plus one
// rounding of the output type: at most 1 passes. Runs the operator, which lies on the host, on both.
template <class Backend, class Op, int Rank>
double error_against_reference(Backend&& backend, const Op& op, const View<Rank>& output, double ulps) {
  const auto copy = [&] {
    std::vector<double> values(static_cast<std::size_t>(output.size()));
    for (index i = 0; i < output.size(); ++i) values[i] = load_element(output.data, output.dtype, i);
    return values;
  };
  Reference reference;
  if (!run(reference, op).ok()) return 1e30;
  const std::vector<double> expected = copy();
  const auto run_it = [&] {
    if constexpr (RunsOn<Backend, Op>)
      return run(backend, op, BenchWorkspace(workspace_bytes(backend, op)));
    else
      return run_from_host(backend, op);
  };
  if (!run_it().ok()) return 1e30;
  const std::vector<double> got = copy();
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(got[i] - expected[i]));
  }
  const double rounding = output.dtype == DType::f16 ? 0x1p-10 : output.dtype == DType::bf16 ? 0x1p-7 : 0;
  const double allowed = (ulps * 0x1p-24 + rounding) * largest;
  return allowed > 0 ? worst / allowed : worst == 0 ? 0 : 1e30;
}

}  // namespace inlay::bench
