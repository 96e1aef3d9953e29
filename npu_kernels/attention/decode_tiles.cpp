#include "npu_kernels/attention/decode_tiles.hpp"

#include <algorithm>

#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

DecodeTiles decode_tiles(const Device& device, const DecodeOperands& op) {
  const auto bytes = [&](Space space) { return static_cast<index>(device.memory(space).bytes); };
  const bool views = device.feeds_are_views();
  const MatrixRate* rate = device.rate(op.q.dtype, DType::f32);
  const index unit = std::max<index>({rate->n, rate->k, 32});
  const index element = byte_size(op.q.dtype, 1), rows = op.group();
  const index padded = round_up(rows, device.matrix.m_granule);

  DecodeTiles t{};
  t.score_columns = round_down(bytes(Space::accumulator) / 2 / (rows * 4), unit);
  if (!views) {
    index side = unit;  // one ring of tiles serves K^T and V
    while (2 * (side + unit) * (side + unit) * element <= bytes(Space::right)) side += unit;
    t.score_columns = std::min(t.score_columns, side);
  }
  const index staged = 4 * op.dim() * element + (views ? 0 : 2 * padded * element);
  const index vector = rows * (2 * 4 + probabilities_ahead * element);
  const bool shared = device.same_memory(Space::staging, Space::vector);
  const index fit = shared ? bytes(Space::staging) / (staged + vector)
                           : std::min(bytes(Space::staging) / staged, bytes(Space::vector) / vector);
  const index range = ceil_div(op.length, op.splits);
  const index wanted = std::min(fit * 7 / 8, ceil_div(range, 8));  // eighths: a pipeline of four stages fills quickly
  t.tokens = round_down(wanted, unit);
  if (t.tokens > t.score_columns) t.tokens = t.tokens / t.score_columns * t.score_columns;
  t.score_columns = std::min(t.score_columns, t.tokens);
  t.product_depth = views ? t.tokens : t.score_columns;
  return t;
}

}  // namespace inlay::npu
