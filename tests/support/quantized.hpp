// What the tests of quantize and dequantize share: the integer types, and every shape that scales may have.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "tests/support/cases.hpp"

namespace inlay::test {

inline const std::vector<DType> codes = {DType::i8, DType::u8, DType::i4, DType::u4};

inline int lowest(DType code) { return static_cast<int>(round_to(code, -1e9)); }
inline int highest(DType code) { return static_cast<int>(round_to(code, 1e9)); }

struct Granularity {
  DType type, code;
  index rows, cols;
  std::array<index, 2> scales;
  Layout layout;
  bool with_zero;
  index row_group = 0, column_group = 0;
};

// One scale for all, for each row, for each column, for each element; for blocks, whole and cut.
inline std::vector<Granularity> granularities() {
  std::vector<Granularity> list;
  for (DType code : codes) {
    for (index cols : {1, 2, 7, 8, 9, 15, 16, 17, 33, 65, 129})
      for (index rows : {index{0}, index{1}, index{3}})
        for (const std::array<index, 2>& scales : {std::array<index, 2>{1, 1}, {rows, 1}, {1, cols}, {rows, cols}})
          list.push_back({.type = float_types[static_cast<std::size_t>(cols) % 3],
                          .code = code,
                          .rows = rows,
                          .cols = cols,
                          .scales = scales,
                          .layout = layouts[static_cast<std::size_t>(cols + rows) % 3],
                          .with_zero = (cols + scales[0]) % 2 == 1});
    constexpr index rows = 5, cols = 65;
    for (const auto& [row_group, column_group] : {std::pair<index, index>{0, 32}, {2, 0}, {3, 7}, {1, 1}, {128, 128}})
      list.push_back({.type = DType::f32,
                      .code = code,
                      .rows = rows,
                      .cols = cols,
                      .scales = {row_group ? (rows + row_group - 1) / row_group : 1,
                                 column_group ? (cols + column_group - 1) / column_group : 1},
                      .layout = layouts[1],
                      .with_zero = true,
                      .row_group = row_group,
                      .column_group = column_group});
  }
  return list;
}

}  // namespace inlay::test
