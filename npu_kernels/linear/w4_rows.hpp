// Rows of a weight of codes, as floats:
//
//   codes   panels of words: transposed, unpacked (row_reader.hpp)
//   w = (q - zero) scale, or q scale + offset: one for each group of slots, panels [groups, 16] transposed likewise
//
//   slots   0 .. group-1 | group .. 2 group-1 | ..        a tile may start within a group: its rest comes first
#pragma once

#include <inlay/ops/linear_w4a16.hpp>

#include "npu_kernels/linear/row_reader.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

struct W4Weight {
  RowSource codes, scales, zeros, offsets;  // zeros and offsets of count 0: not given
  index group = 0;                          // slots
  float middle = 8;

  bool shifts() const { return zeros.count > 0 || offsets.count > 0; }
  const RowSource& zeros_or_offsets() const { return zeros.count > 0 ? zeros : offsets; }
};

W4Weight w4_weight(GlobalMemory& memory, const LinearW4a16<Host>& op);

// Words of codes with the upper bit of each turned: q is q - 2^(bits - 1) in two's complement, of the type that it
// gives.
DType turn_upper_bits(Core& core, const Tensor& words, DType codes);

class W4Reader final : public RowTiles {
 public:
  W4Reader(Core& core, Scratch& scratch, const W4Weight& weight, index depth);
  Tensor read(index row, index rows, index k, index depth) override;
  void release() override {}

 private:
  void combine(VectorOp op, RowReader& from, const Tensor& w, index row, index k);

  Core& core_;
  W4Weight weight_;
  RowReader codes_, scales_;
  std::optional<RowReader> others_;
  Tensor w_;
};

}  // namespace inlay::npu
