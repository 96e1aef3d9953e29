// Rows of x (tokens) by register tiles: as many full tiles as there are, then smaller ones. What a tile holds lies
// side by side in one stream, since rows k apart would meet in the same sets of the first cache wherever k is a
// multiple of 4096.
#pragma once

#include <inlay/core/overflow.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::cpu {

struct TileOfRows {
  index first, rows;
};

// The cut: as few tiles of at most `most` rows as there can be, which differ by one row at most; up to `alone` rows are
// one. Or `halves`, where few sizes are compiled: full tiles, then 8 4 2 1 behind 12 and 4 2 1 behind 6.
struct RowTiles {
  int most, alone = most;
  bool halves = false;

  // The next smaller one than a tile of `rows`.
  constexpr int smaller(int rows) const {
    if (!halves) return rows - 1;
    return rows == 12 ? 8 : rows == 6 ? 4 : rows / 2;
  }
  // How many tiles `rows` are, and where one of them begins, or ends the one before.
  INLAY_INLINE index count(index rows) const {
    if (!halves) return rows <= alone ? 1 : groups_of(rows, index{most});
    index tiles = rows / most;
    for (index left = rows % most; left > 0; left -= part(left)) ++tiles;
    return tiles;
  }
  INLAY_INLINE index begin(index tile, index rows) const {
    if (!halves) return rows * tile / count(rows);
    const index full = tile < rows / most ? tile : rows / most;
    index at = full * most;
    for (tile -= full; tile > 0; --tile) at += part(rows - at);
    return at;
  }
  INLAY_INLINE TileOfRows tile(index tile, index rows) const {
    const index first = begin(tile, rows);
    return {first, begin(tile + 1, rows) - first};
  }
  INLAY_INLINE TileOfRows holding(index row, index rows) const {
    if (!halves) return tile(((row + 1) * count(rows) - 1) / rows, rows);
    index of_row = row / most;
    while (begin(of_row + 1, rows) <= row) ++of_row;
    return tile(of_row, rows);
  }

 private:
  // Of the largest part that `left` rows have.
  INLAY_INLINE index part(index left) const {
    int rows = most;
    while (rows > left) rows = smaller(rows);
    return rows;
  }
};

// run(std::integral_constant<int, R>) for the R = rows of a tile.
template <RowTiles Tiles, int R = Tiles.alone, class Run> INLAY_INLINE void with_tile_rows(index rows, Run&& run) {
  if (rows == R) return run(std::integral_constant<int, R>{});
  if constexpr (R > 1) with_tile_rows<Tiles, Tiles.smaller(R)>(rows, run);
}

// The same for the smallest tile that `rows` fit into, of two rows at least.
template <int Full, class Run> INLAY_INLINE void with_tile_of_at_least(index rows, Run&& run) {
  if constexpr (Full > 2) {
    constexpr int less = RowTiles{.most = Full, .halves = true}.smaller(Full);
    if (rows <= less) return with_tile_of_at_least<less>(rows, run);
  }
  run(std::integral_constant<int, Full>{});
}

}  // namespace inlay::cpu
