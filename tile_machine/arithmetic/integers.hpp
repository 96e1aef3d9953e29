// Integers that stay integers in the vector unit.
#pragma once

#include "tile_machine/arithmetic/elements.hpp"

namespace inlay::npu::tiles {

inline bool is_bitwise(VectorOp op) { return op >= VectorOp::bit_and && op <= VectorOp::shift_right; }

// i32, and for bits also the narrower types: arithmetic of those passes through f32 and saturates.
inline bool works_on_integers(VectorOp op, DType dst, DType a) {
  return is_bitwise(op) || (dst == DType::i32 && a == DType::i32);
}

// Of operands of one type.
void binary_integers(VectorOp op, const Tile& dst, const Tile& a, const Tile& b);
void scalar_integers(VectorOp op, const Tile& dst, const Tile& a, std::int32_t b);

}  // namespace inlay::npu::tiles
