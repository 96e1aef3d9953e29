// The tiles of decode attention that a device's memories allow.
#pragma once

#include "npu_kernels/attention/decode_attention.hpp"

namespace inlay::npu {

struct DecodeTiles {
  index tokens;         // of a tile
  index score_columns;  // of one product of mm1
  index product_depth;  // of one product of mm2
};

inline constexpr index probabilities_ahead = 3;  // tiles of them on their way: vec1 is two ahead of mm2

// The longest tile whose K and V the memories hold twice, beside what the stages hand over.
DecodeTiles decode_tiles(const Device& device, const DecodeOperands& op);

}  // namespace inlay::npu
