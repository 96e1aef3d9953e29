// What a call wrote, and how near it must be to the reference. The sweeps of the operators hold the exact bounds; these
// are coarse, and find what is another number altogether.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <inlay/inlay.hpp>

#include "measure/cases/memory.hpp"

namespace inlay::cases {

// What a change does to the comparison with the reference.
struct Changes {
  int count = 0;
  bool wild = false;  // numbers beyond what the operator's bound is about, or what packing promises is broken
  bool nan = false;   // numbers that are not finite, with nothing else strange about them
  bool infinite = false;
  std::string fields;
};

struct Near {
  double relative = 1e-4;  // to the largest number of the view, or 1
  double absolute = 0;
  double codes = 0;  // integers that may differ by one
};
template <class Op> Near nearness(const Op&) { return {}; }
inline Near nearness(const Dequantize<Host>&) { return {.relative = 0}; }
inline Near nearness(const ReshapeAndCache<Host>&) { return {.relative = 0}; }
inline Near nearness(const CopyBlocks<Host>&) { return {.relative = 0}; }
inline Near nearness(const SwapBlocks<Host>&) { return {.relative = 0}; }
inline Near nearness(const RmsNorm<Host>&) { return {.codes = 1}; }
inline Near nearness(const LinearInt8<Host>&) { return {.codes = 1}; }
inline Near nearness(const FlashAttention<Host>& op) {
  return {.relative = op.compute == AttentionCompute::bf16_products ? 0.1 : 1e-3};
}
inline Near nearness(const PagedAttention<Host>&) { return {.relative = 1e-3}; }
inline Near nearness(const IncreFlashAttention<Host>&) { return {.relative = 1e-3, .codes = 1}; }
inline Near nearness(const LinearW4a16<Host>& op) {
  return op.compute == W4Compute::int8_activations ? Near{.relative = 0.05, .absolute = 2} : Near{.relative = 1e-3};
}

// Of one view that was written.
struct Written {
  std::string_view name;
  DType dtype;
  std::vector<double> values;
};

template <class V, class Visit> void each_offset(const V& view, Visit&& visit) {
  std::array<index, V::rank> at{};
  if (view.empty()) return;
  for (;;) {
    index where = 0;
    for (int d = 0; d < V::rank; ++d)
      where += at[static_cast<std::size_t>(d)] * view.strides[static_cast<std::size_t>(d)];
    visit(where);
    int d = V::rank - 1;
    while (d >= 0 && ++at[static_cast<std::size_t>(d)] == view.extents[static_cast<std::size_t>(d)])
      at[static_cast<std::size_t>(d--)] = 0;
    if (d < 0) return;
  }
}

template <class Op> std::vector<Written> written(const Op& op) {
  std::vector<Written> list;
  for_each_field(op, [&](const auto& field, const auto& value) {
    if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>) {
      if (!field.is_written() || !value.present()) return;
      Written one{field.name, value.dtype, {}};
      each_offset(value, [&](index at) { one.values.push_back(load_element(value.data, value.dtype, at)); });
      list.push_back(std::move(one));
    }
  });
  return list;
}

// How far a result is from the reference: the worst error in units of what it may be, and the first that is more.
struct Distance {
  double worst = 0;
  std::string words;  // "" where nothing is too far
};
inline Distance distance(const std::vector<Written>& expected, const std::vector<Written>& got, const Near& near,
                         const Changes& changes = {}) {
  Distance all;
  for (std::size_t v = 0; v < expected.size(); ++v) {
    const auto& [name, dtype, values] = expected[v];
    double largest_value = 1;
    for (double e : values)
      if (std::isfinite(e)) largest_value = std::max(largest_value, std::abs(e));
    const double epsilon = dtype == DType::f16 ? 0x1p-10 : dtype == DType::bf16 ? 0x1p-7 : 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double e = values[i], g = got[v].values[i];
      if (e == g || (std::isnan(e) && std::isnan(g))) continue;
      if (changes.infinite && !std::isfinite(e) && !std::isfinite(g)) continue;  // inf - inf, in another order
      const double error = dtype > DType::bf16 ? near.codes
                           : near.relative == 0
                               ? 0
                               : near.relative * largest_value + near.absolute + 2 * epsilon * std::abs(e);
      const double off = std::abs(g - e);
      const bool far = !(off <= error);
      all.worst =
          std::max(all.worst, far && !(off / error > 1) ? std::numeric_limits<double>::infinity() : off / error);
      if (!far || !all.words.empty()) continue;
      all.words = std::string(name) + ", element " + std::to_string(i) + " of " + std::to_string(values.size()) +
                  ": got " + std::to_string(g) + ", the reference has " + std::to_string(e);
    }
  }
  return all;
}

// Of each placed operand the bytes that hold an element of what is written.
template <class Op> std::vector<std::vector<bool>> written_bytes(const std::vector<Placed>& placed, const Op& op) {
  std::vector<std::vector<bool>> owned;
  for (const Placed& one : placed) owned.emplace_back(one.bytes, false);
  for_each_field(op, [&](const auto& field, const auto& view) {
    if constexpr (ViewLike<std::remove_cvref_t<decltype(view)>>) {
      if (!field.is_written() || !view.present() || view.empty()) return;
      const auto* const data = static_cast<const std::byte*>(static_cast<const void*>(view.data));
      for (std::size_t i = 0; i < owned.size(); ++i) {
        const Placed& one = placed[i];
        if (data < one.begin || data >= one.begin + one.bytes) continue;
        each_offset(view, [&](index at) {
          const index bit = at * bits(view.dtype) + (data - one.begin) * 8;
          for (index byte = bit / 8; byte < (bit + bits(view.dtype) + 7) / 8; ++byte)
            owned[i][static_cast<std::size_t>(byte)] = true;
        });
      }
    }
  });
  return owned;
}

}  // namespace inlay::cases
