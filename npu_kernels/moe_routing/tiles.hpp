// What both passes of moe_routing go by: its operands, and the tiles of their tokens.
#pragma once

#include <inlay/ops/moe_routing.hpp>

#include <algorithm>
#include <limits>

#include "tile_machine/run/core.hpp"

namespace inlay::npu {

inline constexpr float moe_most = std::numeric_limits<float>::max(), moe_gone = -std::numeric_limits<float>::infinity();

struct MoeRoutingOperands {
  NdTensor logits, bias, weights, ids, rows, row_tokens, expert_ends;
  Tensor counts;  // [units, experts] of the workspace
  bool biased;
  MoeScore score;
  index groups, groups_kept;
  bool sums_two, renormalize;
  float scale, jitter;
  index tile;  // tokens

  index tokens() const { return logits.extent(0); }
  index experts() const { return logits.extent(1); }
  index top_k() const { return weights.extent(1); }
  index of_group() const { return experts() / groups; }
};

// A tile of so many rows and columns; rows start at granules where there are two columns.
inline Tensor moe_tile(Core& core, const char* name, index rows, index columns, DType dtype = DType::f32) {
  return core.alloc(name, Space::vector, {rows, std::max<index>(2, columns)}, dtype);
}
inline Shape moe_wide(index rows, index columns) { return {rows, std::max<index>(2, columns)}; }

// What both passes take.
struct MoeRoutingTiles {
  Tensor choice, mask, experts;  // [tile, experts]; `experts` has their numbers
  Tensor places;                 // [top_k, tile]: a row for each choice, that argmax writes as a column

  MoeRoutingTiles(Core& core, const MoeRoutingOperands& op)
      : choice(moe_tile(core, "choices", op.tile, op.experts())),
        mask(moe_tile(core, "mask", op.tile, op.experts())),
        experts(moe_tile(core, "numbers of experts", op.tile, op.experts(), DType::i32)),
        places(moe_tile(core, "places", std::max<index>(2, op.top_k()), op.tile, DType::i32)) {
    core.viota(experts, {});
  }
};
// Row `i` of a tile, as a column.
inline Tensor moe_column(const Tensor& rows, index i, index count) {
  return rows.slice(i, 1, 0, count).reshape({count, 1});
}

}  // namespace inlay::npu
