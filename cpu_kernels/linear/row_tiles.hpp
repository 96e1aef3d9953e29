// Rows of x (tokens) by register tiles: as many full tiles as there are, then smaller ones. What a tile holds lies
// side by side in one stream, since rows k apart would meet in the same sets of the first cache wherever k is a
// multiple of 4096.
#pragma once

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::cpu {

struct TileOfRows {
  index first, rows;
};

// 12, then 8 4 2 1; or 6, then 4 2 1. Who cuts `threes` has tiles of three rows as well.
constexpr int smaller_tile(int rows, bool threes = false) {
  if (threes && (rows == 4 || rows == 3)) return rows - 1;
  return rows == 12 ? 8 : rows == 6 ? 4 : rows / 2;
}

// The tile that begins where `left` rows are left.
INLAY_INLINE index tile_rows(int full, index left, bool threes = false) {
  int rows = full;
  while (rows > left) rows = smaller_tile(rows, threes);
  return rows;
}

// The tile of `row`, of `rows`.
INLAY_INLINE TileOfRows tile_of(int full, index row, index rows, bool threes = false) {
  TileOfRows tile{row / full * full, 0};
  for (tile.rows = tile_rows(full, rows - tile.first, threes); tile.first + tile.rows <= row;
       tile.rows = tile_rows(full, rows - tile.first, threes))
    tile.first += tile.rows;
  return tile;
}

// run(std::integral_constant<int, R>) for the R = rows of a tile.
template <int Full, bool Threes = false, class Run> INLAY_INLINE void with_tile_rows(index rows, Run&& run) {
  if (rows == Full) return run(std::integral_constant<int, Full>{});
  if constexpr (Full > 1) with_tile_rows<smaller_tile(Full, Threes), Threes>(rows, run);
}

// The same for the smallest tile that `rows` fit into, of two rows at least.
template <int Full, class Run> INLAY_INLINE void with_tile_of_at_least(index rows, Run&& run) {
  if constexpr (Full > 2)
    if (rows <= smaller_tile(Full)) return with_tile_of_at_least<smaller_tile(Full)>(rows, run);
  run(std::integral_constant<int, Full>{});
}

}  // namespace inlay::cpu
