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

// The cut: tiles of `full` rows, then 8 4 2 1 behind 12 and 4 2 1 behind 6; with `threes` one of three behind 4 too.
struct RowTiles {
  int full;
  bool threes = false;

  // The next smaller one than a tile of `rows`.
  constexpr int smaller(int rows) const {
    if (threes && (rows == 4 || rows == 3)) return rows - 1;
    return rows == 12 ? 8 : rows == 6 ? 4 : rows / 2;
  }
  // Rows of the tile that begins where `left` rows are left.
  INLAY_INLINE index next(index left) const {
    int rows = full;
    while (rows > left) rows = smaller(rows);
    return rows;
  }
  // The tile of `row`, of `rows`.
  INLAY_INLINE TileOfRows holding(index row, index rows) const {
    TileOfRows tile{row / full * full, 0};
    for (tile.rows = next(rows - tile.first); tile.first + tile.rows <= row; tile.rows = next(rows - tile.first))
      tile.first += tile.rows;
    return tile;
  }
};

// run(std::integral_constant<int, R>) for the R = rows of a tile.
template <RowTiles Tiles, int R = Tiles.full, class Run> INLAY_INLINE void with_tile_rows(index rows, Run&& run) {
  if (rows == R) return run(std::integral_constant<int, R>{});
  if constexpr (R > 1) with_tile_rows<Tiles, Tiles.smaller(R)>(rows, run);
}

// The same for the smallest tile that `rows` fit into, of two rows at least.
template <int Full, class Run> INLAY_INLINE void with_tile_of_at_least(index rows, Run&& run) {
  if constexpr (Full > 2) {
    constexpr int less = RowTiles{Full}.smaller(Full);
    if (rows <= less) return with_tile_of_at_least<less>(rows, run);
  }
  run(std::integral_constant<int, Full>{});
}

}  // namespace inlay::cpu
