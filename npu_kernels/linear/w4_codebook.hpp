// Codes of four bits become the values that a codebook has for them:
//
//   load_vector  the sixteen values, once    vector  codes u4 -> places i32 -> values i8
//
// The values fit in the unit's lanes: where codes lie side by side, they are looked up as a row of lanes is permuted.
#pragma once

#include "npu_kernels/linear/scratch.hpp"

namespace inlay::npu {

class CodeValues {
 public:
  // Up to `most` codes at once.
  CodeValues(Core& core, Scratch& scratch, const NdTensor& codebook, Shape most);
  // Of the vector unit's memory, for each code.
  static constexpr index bytes_of_code = 4;
  // nd tiles of one shape, u4 to i8.
  void operator()(const Tensor& values, const Tensor& codes);

 private:
  Core& core_;
  Tensor codebook_, places_;
};

}  // namespace inlay::npu
