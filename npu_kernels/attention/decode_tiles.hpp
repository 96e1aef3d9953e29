// The tiles of decode attention that a device's memories allow.
#pragma once

#include <vector>

#include "npu_kernels/attention/decode_attention.hpp"

namespace inlay::npu {

struct DecodeTiles {
  index tokens;         // of a tile
  index score_columns;  // of one product of mm1
  index product_depth;  // of one product of mm2
};

inline constexpr index probabilities_ahead = 3;  // tiles of them on their way: vec1 is two ahead of mm2

// Tokens of an item, with all query rows of its head.
struct TokenTile {
  index item, cache_row, query_row, tokens;
  bool first, last;  // of its item
};

// Who shares the items: this one of so many.
struct Worker {
  index me, all;
};

// The worker's tiles in order. Items differ in length by the rounding of the splits.
std::vector<TokenTile> token_tiles(const DecodeOperands& op, Worker worker, index tokens);

// The longest tile whose K and V the memories hold twice, beside what the stages hand over.
DecodeTiles decode_tiles(const Device& device, const DecodeOperands& op);
// .. and of the vector units alone, beside K or V and their products in f32.
index vector_tile(const Device& device, const DecodeOperands& op);

}  // namespace inlay::npu
