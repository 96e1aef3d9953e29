// Random operands of one call in host memory, the same for the same order of calls. A call is made twice with them: as
// it is, for the device, and with every float type widened to f32, for the reference: what that gives is not rounded to
// a shorter type.
#pragma once

#include <cstddef>
#include <list>
#include <random>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/core/view.hpp>

namespace inlay::tools {

class Operands {
 public:
  explicit Operands(bool widened) : widened_(widened) {}
  Operands(const Operands&) = delete;

  // Uniform in low..high, rounded to `dtype`.
  template <int Rank>
  View<Rank> random(DType dtype, const std::array<index, Rank>& extents, double low = -1, double high = 1) {
    std::uniform_real_distribution<double> values(low, high);
    const DType kept = wide(dtype);
    const View<Rank> view = make<Rank>(kept, extents);
    const View<1> flat(view.data, kept, {view.size()});
    for (index k = 0; k < flat.size(); ++k) {
      unsigned char rounded[8] = {};
      store_element(rounded, dtype, 0, values(rng_));
      store_element(flat.data, kept, k, load_element(rounded, dtype, 0));
    }
    return view;
  }
  // Integers in low..high, both included.
  template <int Rank>
  View<Rank> integers(DType dtype, const std::array<index, Rank>& extents, std::int64_t low, std::int64_t high) {
    std::uniform_int_distribution<std::int64_t> values(low, high);
    const View<Rank> view = make<Rank>(dtype, extents);
    for (index k = 0; k < view.size(); ++k) store_element(view.data, dtype, k, static_cast<double>(values(rng_)));
    return view;
  }
  // 0, 1, 2 ..
  View<1> counting(DType dtype, index count) {
    const View<1> view = make<1>(dtype, {count});
    for (index k = 0; k < count; ++k) store_element(view.data, dtype, k, static_cast<double>(k));
    return view;
  }
  // What a call writes: every byte is 0xff, NaN in each float type. Rows lie apart, so that what is written beside them
  // is seen.
  template <int Rank> View<Rank> output(DType dtype, const std::array<index, Rank>& extents) {
    constexpr index gap = 64;  // elements: vectors stay aligned
    std::array<index, Rank> apart = extents;
    if constexpr (Rank > 1) apart[Rank - 1] += gap;
    const View<Rank> whole = make<Rank>(wide(dtype), apart);
    View<Rank> view = whole;
    view.extents = extents;
    return view;
  }

  // For the caller to fill; of exactly this type.
  template <int Rank> View<Rank> bytes(DType dtype, const std::array<index, Rank>& extents) {
    return make<Rank>(dtype, extents);
  }

 private:
  DType wide(DType dtype) const {
    return widened_ && (dtype == DType::f16 || dtype == DType::bf16) ? DType::f32 : dtype;
  }
  template <int Rank> View<Rank> make(DType dtype, const std::array<index, Rank>& extents) {
    index size = 1;
    for (index extent : extents) size *= extent;
    auto& memory = memory_.emplace_back(static_cast<std::size_t>(byte_size(dtype, size)) + alignment, std::byte{0xff});
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return {memory.data() + (alignment - at % alignment) % alignment, dtype, extents};
  }

  static constexpr std::size_t alignment = 64;
  bool widened_;
  std::mt19937_64 rng_{1};
  std::list<std::vector<std::byte>> memory_;
};

}  // namespace inlay::tools
