#include "npu_kernels/attention/decode_tiles.hpp"

#include <algorithm>

#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

std::vector<TokenTile> token_tiles(const DecodeOperands& op, Worker worker, index tokens) {
  std::vector<TokenTile> tiles;
  const index range = ceil_div(op.length, op.splits);
  for (index item = worker.me; item < op.items(); item += worker.all) {
    const index cache = item / op.splits, begin = item % op.splits * range, end = std::min(op.length, begin + range);
    for (index token = begin; token < end; token += tokens)
      tiles.push_back({item, cache * op.length + token, cache * op.group(), std::min(tokens, end - token),
                       token == begin, token + tokens >= end});
  }
  return tiles;
}

index vector_tile(const Device& device, const DecodeOperands& op) {
  const Memory& memory = device.memory(Space::vector);
  const auto row = [&](index columns, DType dtype) { return round_up(byte_size(dtype, columns), memory.align); };
  const index rows = op.group(), narrow = row(op.dim(), op.q.dtype), wide = row(op.dim(), DType::f32);
  constexpr index of_a_head = 5, columns = 8;  // tensors of {rows, dim} and of {rows, 1}
  const index fixed = rows * (of_a_head * wide + memory.align) + columns * row(rows, DType::f32);
  const index token = 4 * narrow + 2 * wide + rows * byte_size(DType::f32, 1);  // K, V twice; wide, products; scores
  const index fit = (static_cast<index>(memory.bytes) - fixed) / token, range = ceil_div(op.length, op.splits);
  constexpr index unit = 16;
  return std::max<index>(1, std::min(range, fit < unit ? fit : round_down(fit, unit)));
}

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
  // Eighths: a pipeline of four stages fills quickly. But a step should not be over before a flag of another stream
  // comes.
  const double flight = device.sync.stream_cycles * device.dram_bytes_per_cycle_core;
  const index in_flight = static_cast<index>(flight) / (2 * op.dim() * element);
  const index wanted = std::min(fit * 7 / 8, std::max(ceil_div(range, 8), in_flight));
  t.tokens = round_down(wanted, unit);
  if (t.tokens > t.score_columns) t.tokens = t.tokens / t.score_columns * t.score_columns;
  t.score_columns = std::min(t.score_columns, t.tokens);
  t.product_depth = views ? t.tokens : t.score_columns;
  return t;
}

}  // namespace inlay::npu
