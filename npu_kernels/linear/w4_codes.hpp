// Codes, or codes less their middle, as the matrix unit's floats, which hold them exactly. The order of the words is
// that of their fractal blocks but for a permutation within each:
//
//   words of a block   w0 of n0 .. n15 | w1 of n0 .. n15 | ..      ->      w0 w1 .. of n0 | w0 w1 .. of n1 | ..
//
//   load_vector  words    vector  permuted, upper bit of each code turned, unpacked    the matrix unit, or store
#pragma once

#include "npu_kernels/linear/products.hpp"
#include "npu_kernels/linear/w4_rows.hpp"

namespace inlay::npu {

class W4Codes {
 public:
  // Up to `depth` slots at once; `ahead` loads are on their way.
  W4Codes(Core& core, Scratch& scratch, const RowSource& codes, bool less_middle, index depth, std::uint32_t ahead);
  // Of the vector unit's memory.
  static index bytes(const Device& device, const RowSource& codes, index depth, std::uint32_t ahead);
  // Channels [row, row + rows) of a panel's first on, slots [k, k + depth) of a block's first on, filled up to blocks.
  void operator()(const Tensor& tile, index row, index rows, index k, index depth);

 private:
  void panel(const Tensor& tile, index row, index k, index depth);
  void make_order();

  Core& core_;
  RowSource codes_;
  bool less_middle_;
  index block_, at_once_, words_of_block_, words_of_row_;  // of a row of the permutation: blocks that fill the lanes
  Ring words_;
  Tensor order_, permuted_;
};

// Slots at once, where `bytes_of_slot` of the vector unit's memory hold one.
index w4_slots_at_once(const Device& device, index depth, index bytes_of_slot);

// Codes that pass through the workspace.
class W4StoredCodes {
 public:
  W4StoredCodes(Core& core, Scratch& scratch, const RowSource& codes, bool less_middle, const Operand& to, index depth);
  // How many slots so many bytes of the vector unit's memory hold.
  static index slots_in(const Device& device, const RowSource& codes, index bytes);
  void panel(index row, index k, index depth);
  // The vector units of a core share the panels.
  void operator()(index row, index rows, index k, index depth);

 private:
  Core& core_;
  index count_;
  Operand to_;
  W4Codes codes_;
  Ring out_;
};

// All of them, each vector worker its share.
void make_w4_codes(Core& core, const RowSource& codes, bool less_middle, const Operand& to);

}  // namespace inlay::npu
