// The weight as checkpoints have it, [n, k]: 16 rows make a panel, and its columns are what the tiles
// multiply. A square of registers is turned at a time, two k of 16 bits moving as one lane:
//
//   n0  | k0 k1 | k2 k3 | ..          k0 k1 | n0 | n1 | ..
//   n1  | k0 k1 | k2 k3 | ..    ->    k2 k3 | n0 | n1 | ..
//   ..                                ..
//
// Few rows of x meet the columns where they come out, in registers; many share a slice of them in L1.
#pragma once

#include "cpu_kernels/linear/blocks.hpp"
#include "cpu_kernels/simd/prefetch.hpp"

namespace inlay::cpu {

// The rows of one panel from k = `begin` on. Channels beyond n repeat the last one: nobody reads their sums.
template <class W> struct PanelRows {
  const W* row[linear_panel];
  index there = 0;  // elements before the end of a row

  PanelRows() = default;
  INLAY_INLINE PanelRows(const WeightSource& source, index panel, index begin) : there(source.k - begin) {
    for (index i = 0; i < linear_panel; ++i) {
      const index channel = panel * linear_panel + i;
      row[i] =
          static_cast<const W*>(source.data) + (channel < source.n ? channel : source.n - 1) * source.stride + begin;
    }
  }
};

// k that a lane holds. Blocks of k are whole lanes: LinearPlan makes k even for pairs.
template <class W> inline constexpr index lane_k = std::is_same_v<W, float> ? 1 : 2;

template <class Level, class W>
using PairsOf = std::conditional_t<std::is_same_v<W, bf16>, simd::Bf16Pairs<Level>, simd::F16Pairs<Level>>;

// One column.
template <class Level, class W> simd::Floats<Level> gather(const PanelRows<W>& rows, index part, index step) {
  using F = simd::Floats<Level>;
  W lanes[F::size * lane_k<W>] = {};
  for (index i = 0; i < F::size; ++i)
    for (index k = step * lane_k<W>; k < (step + 1) * lane_k<W> && k < rows.there; ++k)
      lanes[i * lane_k<W> + k % lane_k<W>] = rows.row[part + i][k];
  if constexpr (std::is_same_v<W, float>)
    return F::load(lanes);
  else
    return PairsOf<Level, W>::load(lanes).bits();
}

// Columns step .. step + size, as far as there are `steps`, of the channels from `part` on: store(step, column).
// What is no whole square, at the end of a row, is gathered.
template <class Level, class W, class Store>
INLAY_INLINE void turn(const PanelRows<W>& rows, index part, index step, index steps, Store&& store) {
  using F = simd::Floats<Level>;
  const index end = step + F::size;
  if (steps < end || rows.there < end * lane_k<W>) {
    for (; step < steps; ++step) store(step, gather<Level>(rows, part, step));
    return;
  }
  F lanes[F::size];
  INLAY_UNROLL
  for (index i = 0; i < F::size; ++i) {
    const W* const row = rows.row[part + i] + step * lane_k<W>;
    simd::prefetch_lines(row + linear_k_block, 1);
    if constexpr (std::is_same_v<W, float>)
      lanes[i] = F::load(row);
    else
      lanes[i] = PairsOf<Level, W>::load(row).bits();
  }
  transpose(lanes);
  INLAY_UNROLL
  for (index i = 0; i < F::size; ++i) store(step + i, lanes[i]);
}

// The same two k at a time, as the dot product takes them: store(pair, column).
template <class Level, class W, class Store>
INLAY_INLINE void turn_pairs(const PanelRows<W>& rows, index part, index step, index steps, Store&& store) {
  using F = simd::Floats<Level>;
  if constexpr (std::is_same_v<W, float>) {
    F columns[F::size];
    turn<Level>(rows, part, step, steps, [&](index at, F column) INLAY_INLINE_LAMBDA { columns[at - step] = column; });
    INLAY_UNROLL
    for (index i = 0; i < F::size; i += 2)
      if (step + i < steps) store((step + i) / 2, to_bf16_pairs(columns[i], columns[i + 1]));
  } else {
    turn<Level>(rows, part, step, steps, [&](index at, F column) INLAY_INLINE_LAMBDA {
      const auto pairs = PairsOf<Level, W>::of(column);
      if constexpr (std::is_same_v<W, bf16>)
        store(at, pairs);
      else
        store(at, to_bf16_pairs(pairs.even(), pairs.odd()));
    });
  }
}

template <class Level, class W, class Store>
INLAY_INLINE void turn_all(const WeightSource& source, index panel, index begin, index count, Store&& store) {
  using F = simd::Floats<Level>;
  const PanelRows<W> rows(source, panel, begin);
  const index steps = count / lane_k<W>;
  for (index step = 0; step < steps; step += F::size)
    for (index part = 0; part < linear_panel; part += F::size)
      turn<Level>(rows, part, step, steps, [&](index at, F column) { store(at, part, column); });
}

template <class Level, class W>
const float* rows_slice(const WeightSource& source, index panel, index begin, index count, float* scratch) {
  using F = simd::Floats<Level>;
  turn_all<Level, W>(source, panel, begin, count, [&](index step, index part, F column) {
    float* const to = scratch + step * lane_k<W> * linear_panel + part;
    if constexpr (std::is_same_v<W, float>) {
      column.store(to);
    } else {
      const auto pairs = PairsOf<Level, W>::of(column);
      pairs.even().store(to);
      pairs.odd().store(to + linear_panel);
    }
  });
  return scratch;
}

template <class Level, class W>
const bf16* rows_bf16_slice(const WeightSource& source, index panel, index begin, index count, bf16* scratch) {
  using F = simd::Floats<Level>;
  const PanelRows<W> rows(source, panel, begin);
  const index steps = count / lane_k<W>;
  for (index step = 0; step < steps; step += F::size)
    turn_pairs<Level>(rows, 0, step, steps, [&](index pair, simd::Bf16Pairs<Level> column) {
      column.bits().store(reinterpret_cast<float*>(scratch) + pair * linear_panel);
    });
  return scratch;
}

// Rows of x that multiply the columns at once: few(rows, x, source, panel, begin, count, sums, accumulate).
template <class Level> inline constexpr int few_rows = max_tile_rows<Level> < 4 ? max_tile_rows<Level> : 4;
template <class Kind>
using FewRowsOf = void (*)(index rows, const typename PackedXOf<Kind>::Element* x, const WeightSource& source,
                           index panel, index begin, index count, float* const* sums, bool accumulate);
// Panels in turn: the chain of one hides behind the shuffles of the other.
template <class Level> inline constexpr int turned_panels(int rows) {
  return simd::Floats<Level>::size == 16 && rows <= 2 ? 2 : 1;
}

// sums[p][r][16] (+)= x * weight over one block of k, for the panels from `panel` on.
template <class Level, class Kind, class W, int Rows>
void turned_tile(const typename PackedXOf<Kind>::Element* x, const WeightSource& source, index panel, index begin,
                 index count, float* const* sums, bool accumulate) {
  using F = simd::Floats<Level>;
  constexpr int panels = turned_panels<Level>(Rows);
  PanelRows<W> rows[panels];
  for (int p = 0; p < panels; ++p) rows[p] = PanelRows<W>(source, panel + p, begin);
  const index steps = count / lane_k<W>;
  for (index part = 0; part < linear_panel; part += F::size) {
    simd::RegisterTile<Level, Rows, panels> tile;
    const auto meet = [&](int p, index k, F column) INLAY_INLINE_LAMBDA {
      tile.add_column(
          p, [&](int r) INLAY_INLINE_LAMBDA { return F(x[k * Rows + r]); }, column);
    };
    for (index step = 0; step < steps; step += F::size) {
      INLAY_UNROLL
      for (int p = 0; p < panels; ++p)
        if constexpr (is_bf16_dot<Kind>) {
          using Pairs = simd::Bf16Pairs<Level>;
          turn_pairs<Level>(rows[p], part, step, steps, [&](index at, Pairs column) INLAY_INLINE_LAMBDA {
            tile.add_column(
                p, [&](int r) INLAY_INLINE_LAMBDA { return Pairs::broadcast(x[at * Rows + r]); }, column);
          });
        } else {
          turn<Level>(rows[p], part, step, steps, [&](index at, F column) INLAY_INLINE_LAMBDA {
            if constexpr (std::is_same_v<W, float>) {
              meet(p, at, column);
            } else {
              const auto pairs = PairsOf<Level, W>::of(column);
              meet(p, 2 * at, pairs.even());
              meet(p, 2 * at + 1, pairs.odd());
            }
          });
        }
    }
    tile.each([&](int r, int p, F sum) INLAY_INLINE_LAMBDA {
      float* const out = sums[p] + r * linear_panel + part;
      ((accumulate ? F::load(out) : F()) + sum).store(out);
    });
  }
}

template <class Level, class Kind, class W>
void turned_tiles(index rows, const typename PackedXOf<Kind>::Element* x, const WeightSource& source, index panel,
                  index begin, index count, float* const* sums, bool accumulate) {
  simd::with_count<few_rows<Level>>(rows, [&](auto r) INLAY_INLINE_LAMBDA {
    turned_tile<Level, Kind, W, r>(x, source, panel, begin, count, sums, accumulate);
  });
}

}  // namespace inlay::cpu
