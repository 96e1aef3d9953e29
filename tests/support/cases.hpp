// The sweep that contracts.md settles: sizes around every tile and vector width, layouts, dtypes.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tests/support/tensor.hpp"

namespace inlay::test {

using Rng = std::mt19937_64;

inline const std::vector<DType> float_types = {DType::f32, DType::f16, DType::bf16};

// 1, N-1, N, N+1, 2N+1 around the widths that kernels cut by (8, 16, 64), and a row of a model.
inline const std::vector<index> sizes = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 111, 129, 769};

inline const std::vector<index> row_counts = {0, 1, 2, 3, 5};

inline const std::vector<index> head_dims = {1, 59, 64, 80, 96, 111, 112, 120, 128, 192, 256, 576};

inline const std::vector<index> block_sizes = {1, 3, 5, 16, 32, 256};

// Contiguous and aligned; rows apart; rows apart and off every boundary.
inline const std::vector<Layout> layouts = {{}, {.row_gap = 5, .misaligned = 0}, {.row_gap = 3, .misaligned = 1}};

// A list of lengths, offsets or ids.
inline Tensor<1> list_of(DType type, const std::vector<index>& values) {
  Tensor<1> list(type, {static_cast<index>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) list.set(static_cast<index>(i), static_cast<double>(values[i]));
  return list;
}

// What tells one turn of a sweep from the next, where the operator's own fields (describe.hpp) do not say it.
template <class... Parts> std::string describe(const Parts&... parts) {
  std::string text;
  const auto add = [&](const auto& part) {
    if (!text.empty()) text += ' ';
    if constexpr (std::is_same_v<std::decay_t<decltype(part)>, DType>)
      text += inlay::name(part);
    else if constexpr (std::is_same_v<std::decay_t<decltype(part)>, Layout>)
      text += "gap " + std::to_string(part.row_gap) + " misaligned " + std::to_string(part.misaligned);
    else if constexpr (std::is_convertible_v<decltype(part), std::string>)
      text += part;
    else
      text += std::to_string(part);
  };
  (add(parts), ...);
  return text;
}

}  // namespace inlay::test
