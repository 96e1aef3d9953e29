// The problem of decode attention, and the tiles that a device's memories allow for it.
#pragma once

#include <algorithm>

#include "npu_kernels/machine/tensor.hpp"

namespace inlay::npu {

struct DecodeAttention {
  Tensor q, out;  // [sequence, head] rows of `dim`
  Tensor k, v;    // [sequence, head of the cache, token] rows of `dim`: a head's tokens are one run
  index sequences = 1, heads = 1, cache_heads = 1, length = 1, splits = 1;
  float scale = 1;
  // Workspace, as decode_workspace says: partial sums, maxima and totals of the splits; what passes from the
  // matrix unit to the vector unit and back where only global memory joins them.
  Tensor sums, maxima, totals, scores, weights, products;

  index group() const { return heads / cache_heads; }
  index dim() const { return q.columns(); }
  index items() const { return sequences * cache_heads * splits; }
};

struct DecodeTiles {
  index tokens;         // of a tile
  index score_columns;  // of one product of mm1
  index product_depth;  // of one product of mm2
};

inline constexpr index weights_ahead = 3;  // tiles of weights on their way: vec1 is two ahead of mm2

// The longest tile whose K and V the memories hold twice, beside what the stages hand over.
inline DecodeTiles decode_tiles(const Device& device, bool views, const DecodeAttention& op) {
  const auto bytes = [&](Space space) { return static_cast<index>(device.memory(space).bytes); };
  const MatrixRate* rate = device.rate(op.q.dtype, DType::f32);
  const index unit = std::max<index>({rate->n, rate->k, 32});
  const index element = byte_size(op.q.dtype, 1), rows = op.group(), granule = device.matrix.m_granule;
  const index padded = (rows + granule - 1) / granule * granule;
  const auto down = [&](index value) { return std::max(unit, value / unit * unit); };

  DecodeTiles t{};
  t.score_columns = down(bytes(Space::accumulator) / 2 / (rows * 4));
  if (!views) {
    index side = unit;  // one ring of tiles serves K^T and V
    while (2 * (side + unit) * (side + unit) * element <= bytes(Space::right)) side += unit;
    t.score_columns = std::min(t.score_columns, side);
  }
  const index staged = 4 * op.dim() * element + (views ? 0 : 2 * padded * element);
  const index vector = rows * (2 * 4 + weights_ahead * element);
  const bool shared = device.same_memory(Space::staging, Space::vector);
  const index fit = shared ? bytes(Space::staging) / (staged + vector)
                           : std::min(bytes(Space::staging) / staged, bytes(Space::vector) / vector);
  const index range = (op.length + op.splits - 1) / op.splits;
  const index wanted = std::min(fit * 7 / 8, (range + 7) / 8);  // eighths: a pipeline of four stages fills quickly
  t.tokens = down(wanted);
  if (t.tokens > t.score_columns) t.tokens = t.tokens / t.score_columns * t.score_columns;
  t.score_columns = std::min(t.score_columns, t.tokens);
  t.product_depth = views ? t.tokens : t.score_columns;
  return t;
}

// Shapes of the workspace for a device: of each of the tensors in DecodeAttention.
struct DecodeWorkspace {
  Shape sums, statistics, scores, weights, products;
};
inline DecodeWorkspace decode_workspace(const Device& device, index cores, bool views, const DecodeAttention& op) {
  const DecodeTiles t = decode_tiles(device, views, op);
  const index rows = op.group();
  return {{op.items() * rows, op.dim()},
          {op.items() * rows, 1},
          {cores * 2 * rows, t.tokens},
          {cores * weights_ahead * rows, t.tokens},
          {cores * 2 * rows, op.dim()}};
}

}  // namespace inlay::npu
