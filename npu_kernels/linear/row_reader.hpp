// Rows of a matrix, some columns at a time, in the vector unit's memory. The matrix lies in global memory as rows, or
// in the panels of packed weights, where words of consecutive columns of 16 rows lie side by side:
//
//   word 0 | row 0 | row 1 | .. | row 15 |              | word 0 | word 1 | ..  row 0
//   word 1 | row 0 | row 1 | .. | row 15 |  transposed  | word 0 | word 1 | ..  row 1
//     ..                                                   ..
//
// A word of f32, f16: one column; of 32 bits: two of bf16, four of i8 or u8, eight of u4.
#pragma once

#include <optional>

#include "npu_kernels/linear/scratch.hpp"

namespace inlay::npu {

inline constexpr index panel_rows = 16;

struct RowSource {
  NdTensor rows;    // [rows, depth]
  NdTensor panels;  // or [panels, words, 16], of f32, f16 or i32
  DType dtype = DType::f32;
  index count = 0, depth = 0;
  bool packed() const { return panels.present(); }
  index per_word() const { return bits(panels.first.dtype) / bits(dtype); }
};

// Tiles of rows, one at a time.
class RowTiles {
 public:
  RowTiles() = default;
  RowTiles(const RowTiles&) = delete;
  RowTiles& operator=(const RowTiles&) = delete;
  virtual ~RowTiles() = default;
  virtual Tensor read(index row, index rows, index k, index depth) = 0;
  virtual void release() = 0;
};

inline constexpr std::uint32_t panels_ahead = 6;  // a panel is short against the latency of global memory

class RowReader final : public RowTiles {
 public:
  // Up to `rows` and `depth` at once; of panels 16 rows, which start a panel, and whole words.
  RowReader(Core& core, Scratch& scratch, const RowSource& source, index rows, index depth,
            std::uint32_t on_their_way = 2);
  Tensor read(index row, index rows, index k, index depth) override;
  void release() override;

 private:
  Core& core_;
  RowSource source_;
  Ring tiles_;
  Tensor turned_;
};

}  // namespace inlay::npu
