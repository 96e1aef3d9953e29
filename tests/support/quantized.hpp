// What the tests of quantize and dequantize share: the integer types, and every shape that scales may have.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/support/cases.hpp"

namespace inlay::test {

inline const std::vector<DType> codes = {DType::i8, DType::u8, DType::i4, DType::u4};

inline int lowest(DType code) { return static_cast<int>(round_to(code, -1e9)); }
inline int highest(DType code) { return static_cast<int>(round_to(code, 1e9)); }

// What an output holds before it is written: nothing that may come out.
template <int Rank> void make_wrong(Tensor<Rank>& output, const Tensor<Rank>& right) {
  const bool code = std::ranges::count(codes, output.dtype()) == 1;
  for (index k = 0; k < output.size(); ++k) {
    const double value = right.get(k);
    if (code)
      output.set(k, value == lowest(output.dtype()) ? highest(output.dtype()) : lowest(output.dtype()));
    else
      output.set(k, std::isnan(value) ? 1 : std::nan(""));
  }
}

struct Granularity {
  DType type, code, scale_type;
  index rows, cols;
  std::array<index, 2> scales;
  index row_group, column_group;
  std::array<Layout, 4> layout;  // of x, y, scale and zero
  bool with_zero;
};

// One scale for all, for each row, for each column, for each element; for blocks, whole and cut.
inline std::vector<Granularity> granularities() {
  std::vector<Granularity> list;
  Rng rng(9);
  const auto add = [&](DType code, index rows, index cols, std::array<index, 2> scales, index row_group,
                       index column_group) {
    const auto layout = [&] { return layouts[rng() % 3]; };
    list.push_back({.type = float_types[rng() % 3],
                    .code = code,
                    .scale_type = float_types[rng() % 3],
                    .rows = rows,
                    .cols = cols,
                    .scales = scales,
                    .row_group = row_group,
                    .column_group = column_group,
                    .layout = {layout(), layout(), layout(), layout()},
                    .with_zero = rng() % 2 == 1});
  };
  for (DType code : codes) {
    for (index cols : {1, 2, 7, 8, 9, 15, 16, 17, 33, 65, 129})
      for (index rows : {index{0}, index{1}, index{3}})
        for (const std::array<index, 2>& scales : {std::array<index, 2>{1, 1}, {rows, 1}, {1, cols}, {rows, cols}})
          add(code, rows, cols, scales, 0, 0);
    constexpr index rows = 5, cols = 65;
    const auto blocks = [](index count, index group) { return (count + group - 1) / group; };
    // A group of 0 is one scale for all or one for each.
    for (index row_group : {0, 1, 2, 3, 5, 128})
      for (index column_group : {0, 1, 5, 7, 8, 16, 17, 32, 33, 64, 65, 128})
        for (bool each : {false, true}) {
          if (each && row_group > 0 && column_group > 0) continue;
          add(code, rows, cols,
              {row_group > 0 ? blocks(rows, row_group)
               : each        ? rows
                             : 1,
               column_group > 0 ? blocks(cols, column_group)
               : each           ? cols
                                : 1},
              row_group, column_group);
        }
  }
  return list;
}

}  // namespace inlay::test
