// A weight that was laid out once: the unit's blocks of all its parts, in memory that the caller keeps. The channels
// are those of whole panels, so that the view of the weight alone says where everything lies:
//
//   part 0   [depth / block][channels][block]     the last block filled up with zeros
//   part 1   the same, of an f32 in two halves
//   powers   [channels] f32, of halves            each array starts at a multiple of workspace_alignment
#pragma once

#include <string>

#include "npu_kernels/backend/program.hpp"
#include "npu_kernels/linear/split_f16.hpp"

namespace inlay::npu {

// How a weight is packed: elements of the unit's own type keep their bits, others become one half or two, with powers.
struct BlockForm {
  DType unit = DType::f16;
  std::size_t parts = 1;
  bool scaled = false;
};

Packing packing_of(const RowSource& weight, const BlockForm& form, const Device& device,
                   std::function<RowSource(GlobalMemory&)> bind);
// As the product reads them.
SplitF16 packed_blocks(GlobalMemory& memory, const RowSource& weight, const BlockForm& form, std::byte* at,
                       Use use = Use::in);

}  // namespace inlay::npu
