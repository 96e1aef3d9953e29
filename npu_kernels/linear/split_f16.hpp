// Rows of floats as the matrix unit takes them. An f32 has 24 bits, an f16 eleven: two halves hold 23 of them,
//
//   x s = high + low + rest,    high = f16(x s),   low = f16(x s - high),   |rest| <= 2^-23 |x s|
//
// with the power of two s that brings the largest finite |x| of the row to 2^14 .. 2^15: then no half overflows, and
// what is lost of small x by f16's range is 2^-40 of the row's largest. A bf16 has eight bits: high holds it. Where x
// is not finite, high is what it is, and low means nothing (epilogue.hpp).
//
//   load_vector  rows    vector  s from the largest; scaled, split, made fractal    store  blocks of each half
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "npu_kernels/linear/operand.hpp"
#include "npu_kernels/linear/row_reader.hpp"

namespace inlay::npu {

// Rows, and columns of whole blocks, that the vector units prepare at once.
struct RowTile {
  index rows, depth;
};
RowTile row_tile(const Device& device, DType dtype, index depth, index bytes_of_element);
// How many rows a vector unit takes where rows may be cut anywhere: few of them are for all vector units.
index rows_at_once(const Core& core, index rows);

struct SplitF16 {
  std::vector<Operand> parts;  // high, or high and low
  Tensor power;                // [1, rows] f32: 2^14 / s; none: elements of the unit's own type, which keep their bits
  NdTensor powers() const { return power.present() ? by_axes(power).at(0, 0) : NdTensor(); }
};

inline constexpr float half_scale = 0x1p14f;  // s times `power`

SplitF16 halves(GlobalMemory& memory, const std::string& name, index rows, index depth, std::size_t parts);
SplitF16 blocks_of(GlobalMemory& memory, const std::string& name, index rows, index depth, DType dtype);

// Each vector unit takes its share of the rows.
void make_halves(Core& core, const RowSource& source, const SplitF16& to);
// The same of rows that are read in some other way, some at once.
using MakeReader = std::function<std::unique_ptr<RowTiles>(Core&, Scratch&, RowTile)>;
void make_halves(Core& core, index count, index depth, const MakeReader& reader, const SplitF16& to,
                 index at_once = panel_rows);

}  // namespace inlay::npu
