// The two products of attention with few queries, straight from the cache: K and V are widened in
// registers and read by all rows (queries, heads of a group) at once.
//
//   qk_rows   s[h][r] = sum_i a[h][i] * b[r][i]          q . K over dims;  p . V over slots where V is slot-minor
//   pv_rows   o[h][d] = factor[h] * o[h][d] + sum_t p[h][t] * v[t][d]      where a token's dims lie side by side
//
// A row may lie in pieces (vLLM's layouts): piece j of row r begins at b + row[r] + piece.at[j].
// Each result is summed in one fixed order, whatever heads share its register tile.
#pragma once

#include <type_traits>

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/attention/row_prefetch.hpp"
#include "cpu_kernels/simd/opaque.hpp"
#include "cpu_kernels/simd/register_tile.hpp"
#include "cpu_kernels/simd/sum_rows.hpp"

namespace inlay::cpu {

// Rows of K or V of one kv head: row r begins at `cache + row[r]`. What pv_rows takes has a row[count] too; nothing is
// read there.
template <class T> struct CacheRows {
  const T* cache;
  const index* row;
  index count;
};

struct Pieces {
  const index* at;
  const index* length;
  index count;
};

// Heads that share a register tile: heads x 4 rows of sums, 4 rows of b, one of a: 21 of 32 registers. Of 16, 3 x 4
// sums, a of three heads and one row of b.
template <class Level> inline constexpr int head_tile = std::is_base_of_v<isa::avx512, Level> ? 4 : 3;
// What of a tile's step stays in registers while the others come one by one: of 16 registers a, or b beside two heads.
template <class Level, int Heads>
inline constexpr bool heads_stay = !std::is_base_of_v<isa::avx512, Level> && Heads != 2;

// each(begin, end) of rows in the fewest tiles of at most `most`, as even as they can be.
template <class Each> INLAY_INLINE void each_tile(index rows, index most, Each&& each) {
  const index tiles = (rows + most - 1) / most;
  for (index i = 0; i < tiles; ++i) each(rows * i / tiles, rows * (i + 1) / tiles);
}

// Tokens of a chunk: what decode reads of all its heads before the next, and prefetches meanwhile.
// token_bytes: K of one token of those heads. A tile has whole chunks: each asks for as many rows as
// it has, and 48 tokens before 16 left 32 of the next 48 to be waited for (dim 64: 8.7 -> 13.2 cycles for 16 elements).
INLAY_INLINE index kv_chunk_tokens(index token_bytes) {
  index tokens = row_tile;
  while (tokens < key_tile && 2 * tokens * token_bytes <= kv_chunk_bytes) tokens *= 2;
  return tokens;
}
static_assert(key_tile % row_tile == 0 && (key_tile / row_tile & (key_tile / row_tile - 1)) == 0);

// How a row fills registers: one piece of whole registers; pieces of one register each (slots of vLLM's layout); pieces
// of half a register, two at a time (its 16-bit keys at AVX-512); pieces of any length.
enum class RowForm { whole, registers, halves, pieces };

template <class Level, class T>
inline constexpr bool has_halves = std::is_base_of_v<isa::avx512, Level> && sizeof(T) == 2;

template <class Level, class T> RowForm row_form(const Pieces& pieces) {
  constexpr index lanes = simd::Floats<Level>::size;
  if (pieces.count == 1 && pieces.length[0] % lanes == 0) return RowForm::whole;
  for (index j = 1; j < pieces.count; ++j)
    if (pieces.length[j] != pieces.length[0]) return RowForm::pieces;
  if (pieces.length[0] == lanes) return RowForm::registers;
  const bool halves = has_halves<Level, T> && pieces.length[0] == lanes / 2 && pieces.count % 2 == 0;
  return halves ? RowForm::halves : RowForm::pieces;
}

// sum[h][k] += value(h) * row(k)
template <class Level, int Heads, int Rows, class Value, class Row>
INLAY_INLINE void multiply_step(simd::RegisterTile<Level, Heads, Rows>& tile, Value&& value, Row&& row) {
  if constexpr (heads_stay<Level, Heads>) {
    simd::Register<Level> of_head[Heads];
    INLAY_UNROLL
    for (int h = 0; h < Heads; ++h) of_head[h] = value(h).v;
    INLAY_UNROLL
    for (int k = 0; k < Rows; ++k)
      tile.add_column(
          k, [&](int h) INLAY_INLINE_LAMBDA { return simd::Floats<Level>(of_head[h]); }, row(k));
  } else {
    simd::Register<Level> of_row[Rows];
    INLAY_UNROLL
    for (int k = 0; k < Rows; ++k) of_row[k] = row(k).v;
    tile.add(value, of_row);
  }
}

// Sums of Heads x Rows: eight of them, which is what hides the latency of fma.
template <int Heads> inline constexpr int rows_of_block = Heads == 1 ? 8 : Heads == 2 ? 4 : 2;

template <class Level, class T, RowForm Form, int Heads>
void qk_heads(Strided<const float> a, const CacheRows<T>& cached, const Pieces& pieces, Strided<float> to,
              RowPrefetch ahead) {
  using F = simd::Floats<Level>;
  const auto [b_of_head, row, rows] = cached;
  const auto [s, s_stride] = to;
  const T* b = b_of_head;
  constexpr int block = std::is_base_of_v<isa::avx512, Level> || Heads == 1 ? rows_of_block<Heads> : 4;
  const index steps = Form == RowForm::whole       ? pieces.length[0] / F::size
                      : Form == RowForm::registers ? pieces.count
                                                   : pieces.count / 2;
  const index* const place = pieces.at;
  if constexpr (Form == RowForm::whole) b += place[0];
  simd::RowSums<Level, Heads, block> results(s, s_stride);
  constexpr int due = results.stages;
  const auto advance = [&](auto stage) INLAY_INLINE_LAMBDA { results.template advance<stage>(); };
  for (index r = 0; r < rows; r += block) {
    ahead.ask(block);
    simd::RegisterTile<Level, Heads, block> tile;
    const T* at[block];
    INLAY_UNROLL
    for (int k = 0; k < block; ++k) at[k] = b + row[r + k];
    const float* from = simd::opaque(a.at);
    const auto step = [&](index lanes, auto load) INLAY_INLINE_LAMBDA {
      const auto value = [&](int h) INLAY_INLINE_LAMBDA {
        const float* const y = from + h * a.stride;
        return simd::opaque(Form == RowForm::pieces ? F::load(y, lanes) : F::load(y));
      };
      multiply_step<Level>(tile, value, [&](int k) INLAY_INLINE_LAMBDA { return load(at[k]); });
      from = simd::opaque(from + lanes);
    };
    if constexpr (Form == RowForm::pieces) {
      simd::unroll<due>(advance);
      for (index j = 0; j < pieces.count; ++j)
        for (index i = 0; i < pieces.length[j]; i += F::size) {
          const index left = pieces.length[j] - i, lanes = min(left, F::size);
          step(lanes, [=, i = place[j] + i](const T* x) INLAY_INLINE_LAMBDA { return F::load(x + i, lanes); });
        }
    } else {
      const auto whole_step = [&](index i) INLAY_INLINE_LAMBDA {
        if constexpr (Form == RowForm::whole)
          step(F::size, [=](const T* x) INLAY_INLINE_LAMBDA { return F::load(x + i * F::size); });
        else if constexpr (Form == RowForm::registers)
          step(F::size, [at = place[i]](const T* x) INLAY_INLINE_LAMBDA { return F::load(x + at); });
        else
          step(F::size, [low = place[2 * i], high = place[2 * i + 1]](const T* x)
                            INLAY_INLINE_LAMBDA { return F::load_halves(x + low, x + high); });
      };
      index i = 0;
      if (steps > due) {
        simd::unroll<due>([&](auto stage) INLAY_INLINE_LAMBDA {
          whole_step(stage);
          advance(stage);
        });
        whole_step(due);
        i = due + 1;
      } else {
        simd::unroll<due>(advance);
      }
      for (; i < steps; ++i) whole_step(i);
    }
    results.take(tile.sum, s + r);
  }
  simd::unroll<due>(advance);
}

// b.count is rounded up to row_tile: row[] repeats its last entry, s has room.
template <class Level, class T>
void qk_rows(Strided<const float> a, index heads, const CacheRows<T>& b, const Pieces& pieces, Strided<float> s,
             RowPrefetch ahead) {
  constexpr int most = head_tile<Level>;
  const RowForm form = row_form<Level, T>(pieces);
  each_tile(heads, most, [&](index h, index end) {
    const auto some = [&]<RowForm Form>(std::integral_constant<RowForm, Form>) {
      simd::with_count<most>(end - h, [&](auto some) INLAY_INLINE_LAMBDA {
        qk_heads<Level, T, Form, some>(a.from(h), b, pieces, s.from(h), ahead);
      });
    };
    if (form == RowForm::whole) some(std::integral_constant<RowForm, RowForm::whole>{});
    if (form == RowForm::registers) some(std::integral_constant<RowForm, RowForm::registers>{});
    if (form == RowForm::pieces) some(std::integral_constant<RowForm, RowForm::pieces>{});
    if constexpr (has_halves<Level, T>)
      if (form == RowForm::halves) some(std::integral_constant<RowForm, RowForm::halves>{});
    ahead = {};
  });
}

// heads x vectors sums, as many registers of v as vectors and a weight: 33 of 32 (what does not fit costs a load).
// Seven heads at once convert a row of v once. Of 16, 3 x 4 or 1 x 8 sums, the weights and one of v. With 2 x 4 and 1 x
// 4, and rows whose address was not known before (below), p V took (Zen 3, f16, 64 rows in L1; beside a neighbour on
// the core, which takes half of what the core can look ahead), and q K^T with 2 x 4:
//
//   before -> now, of fma's time       p V            q K^T     beside a neighbour: p V    q K^T
//   7 x 64                         1.45 -> 1.17   1.66 -> 1.45     2.4 -> 1.75    2.95 -> 2.0
//   1 x 64                         1.95 -> 1.6     2.3 -> 1.9      3.0 -> 2.3      3.7 -> 3.1
//
// K and V widened once for all tiles of heads, into L1, took longer: a conversion is a load with an operation that has
// ports to itself.
template <class Level, int Heads>
inline constexpr int vector_tile = std::is_base_of_v<isa::scalar, Level>                  ? 1
                                   : Heads == 1 && !std::is_base_of_v<isa::avx512, Level> ? 8
                                                                                          : 4;
template <class Level> inline constexpr int pv_head_tile = std::is_base_of_v<isa::avx512, Level> ? 7 : 3;

// lanes: of the last register, where it is not whole.
template <class Level, class T, int Heads, int Vectors, bool Partial>
INLAY_INLINE void pv_block(Strided<const float> p, const CacheRows<T>& v, index lanes, Strided<float> o,
                           const float* factor, RowPrefetch ahead) {
  using F = simd::Floats<Level>;
  const index rows = v.count;
  const auto at = [&](int h, int k) INLAY_INLINE_LAMBDA { return o.at + h * o.stride + k * F::size; };
  simd::RegisterTile<Level, Heads, Vectors> tile([&](int h, int k)
                                                     INLAY_INLINE_LAMBDA { return F::load(at(h, k)) * F(factor[h]); });
  const T* from = v.cache + v.row[0];
  // By sixteens: what asks for rows needs the registers of what multiplies them. The address of a row is there before
  // its turn comes: its load would wait for it, and fma for that load, in places of the scheduler that the next rows
  // want (AVX2: 0.72 to 0.9 of the time).
  constexpr index some = 2 * row_tile;
  const index share = (ahead.count * some + rows - 1) / rows;
  for (index t = 0; t < rows;) {
    const index end = min(t + some, rows);
    ahead.ask(share);
    for (; t < end; ++t) {
      const T* const here = simd::opaque(from);
      from = v.cache + v.row[t + 1];
      const auto weight = [&](int h) INLAY_INLINE_LAMBDA {
        const F w(p.at[h * p.stride + t]);
        return Vectors > 1 ? simd::opaque(w) : w;
      };
      multiply_step<Level>(tile, weight, [&](int k) INLAY_INLINE_LAMBDA {
        return Partial ? F::load(here + k * F::size, lanes) : F::load(here + k * F::size);
      });
    }
  }
  tile.each([&](int h, int k, F sum) INLAY_INLINE_LAMBDA { sum.store(at(h, k)); });
}

template <class Level, class T, int Heads>
void pv_heads(Strided<const float> p, const CacheRows<T>& v, index dim, Strided<float> o, const float* factor,
              RowPrefetch ahead) {
  using F = simd::Floats<Level>;
  constexpr index lanes = F::size;
  constexpr int wide = vector_tile<Level, Heads>;
  index d = 0;
  // Each block asks for whole rows, its share of them. All of them in the first of two blocks are more than the core
  // keeps in flight (Zen 4, dim 128: 16.5 instead of 17.1 GB/s a thread paged, 17.5 instead of 18.2 incremental);
  // each block for its own columns of every row read a third slower.
  const auto block = [&]<int Vectors, bool Partial>(std::integral_constant<int, Vectors>, std::bool_constant<Partial>)
                         INLAY_INLINE_LAMBDA {
                           const index end = min(d + Vectors * lanes, dim);
                           pv_block<Level, T, Heads, Vectors, Partial>(p, {v.cache + d, v.row, v.count}, dim - d,
                                                                       o.from(0, d), factor, ahead.share(d, end, dim));
                           d = end;
                         };
  const auto blocks = [&]<int Vectors>(std::integral_constant<int, Vectors> vectors) INLAY_INLINE_LAMBDA {
    while (d + Vectors * lanes <= dim) block(vectors, std::false_type{});
  };
  blocks(std::integral_constant<int, wide>{});
  if constexpr (wide > 4) blocks(std::integral_constant<int, 4>{});
  blocks(std::integral_constant<int, 1>{});
  if (d < dim) block(std::integral_constant<int, 1>{}, std::true_type{});
}

// o's rows are padded to whole registers.
template <class Level, class T>
void pv_rows(Strided<const float> p, index heads, const CacheRows<T>& v, index dim, Strided<float> o,
             const float* factor, RowPrefetch ahead) {
  constexpr int most = pv_head_tile<Level>;
  each_tile(heads, most, [&](index h, index end) INLAY_INLINE_LAMBDA {
    simd::with_count<most>(end - h, [&](auto some) INLAY_INLINE_LAMBDA {
      pv_heads<Level, T, some>(p.from(h), v, dim, o.from(h), factor + h, ahead);
    });
    ahead = {};
  });
}

}  // namespace inlay::cpu
