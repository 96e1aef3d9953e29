// q K^T has five routes. qk_routes is the one place that chooses: the first line that holds is taken.
//
//   sums         rows    q in L1        level      K                route
//   pairs        any     any            dot_bf16   any              pairs     bf16.hpp
//   in order     1..16   any            avx512     any              squares   columns.hpp, dot_columns()
//                any     any            any        any              columns   columns.hpp, pack_columns()
//   over lanes   5..     896 elements   avx512     16-byte chunks   x4        dot_x4.hpp
//                any     any            any        any              lanes     rows.hpp, qk_rows()
//
// Rows are (query, head of the group) pairs of one kv head.
//
// Sums are what the contract promises of bits. Decode sums over lanes: straight from the cache, and nothing says that
// two routes give the same bits, so that the rows of the whole call choose one for all its units. A prompt sums dim
// after dim (a chunk has the bits of the whole): both of its routes give the same bits, so that each unit takes the
// quicker one of its rows. Pairs of dims are for AttentionCompute::bf16_products.
//
// int8 whose scales cannot leave the sum is widened before (KvScales::widened), and goes as f32 does.
#pragma once

#include <limits>

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/simd/dot_bf16.hpp"
#include "cpu_kernels/simd/four_rows.hpp"

namespace inlay::cpu {

enum class QkSums : unsigned char { over_lanes, in_order, pairs };
enum class QkRoute : unsigned char { lanes, x4, squares, columns, pairs };

// What the contract wants. Levels without the dot product of bf16 take `pairs` in order.
INLAY_INLINE QkSums qk_sums(const AttentionProblem<Host>& p) {
  if (!p.chunk_invariant) return QkSums::over_lanes;
  const bool floats = p.k.dtype() != DType::i8 && p.v.dtype() != DType::i8;
  return floats && p.compute == AttentionCompute::bf16_products ? QkSums::pairs : QkSums::in_order;
}

struct QkCase {
  QkSums sums;
  index min_rows, max_rows;
  index max_elements;  // of the rows of q that pass over K together
  bool level;          // has what the route takes
  bool chunks;         // does the route take K in chunks of 16 bytes?
  QkRoute route;
};

inline constexpr index any_number = std::numeric_limits<index>::max();

template <class Level>
inline constexpr QkCase qk_routes[] = {
    {QkSums::pairs, 0, any_number, any_number, simd::has_dot_bf16<Level>, false, QkRoute::pairs},
    // Scratch is quicker beyond, and always with eight lanes and sixteen registers (4 rows: 1337 us, squares 2074).
    {QkSums::in_order, 0, max_square_rows, any_number, std::is_base_of_v<isa::avx512, Level>, false, QkRoute::squares},
    {QkSums::in_order, 0, any_number, any_number, true, false, QkRoute::columns},
    {QkSums::over_lanes, min_x4_rows, any_number, max_x4_elements, simd::has_four_rows<Level>, true, QkRoute::x4},
    {QkSums::over_lanes, 0, any_number, any_number, true, false, QkRoute::lanes},
};

// May the route be taken at all? What may not is not compiled.
template <class Level> INLAY_INLINE constexpr bool reaches(QkSums sums, QkRoute route) {
  for (const QkCase& c : qk_routes<Level>)
    if (c.sums == sums && c.level && c.route == route) return true;
  return false;
}

// Is a key of chunks of 16 bytes: whole rows of them, or pieces of one each?
INLAY_INLINE bool in_chunks(const AttentionKv<Host>& keys) {
  const bool whole = keys.cache.extents[2] == 1;
  const index piece = byte_size(keys.dtype(), whole ? keys.dim : keys.cache.extents[4]);
  return whole ? piece % 16 == 0 : piece == 16;
}

template <class Level> INLAY_INLINE QkRoute qk_route(const AttentionKv<Host>& keys, QkSums sums, index rows) {
  const index elements = min(rows, max_x4_rows) * keys.dim;
  for (const QkCase& c : qk_routes<Level>)
    if (c.sums == sums && c.level && c.min_rows <= rows && rows <= c.max_rows && elements <= c.max_elements &&
        (!c.chunks || in_chunks(keys)))
      return c.route;
  return QkRoute::lanes;
}

}  // namespace inlay::cpu
