// Rows of a table of GGUF blocks: the fields of the blocks come by DMA into tiles of their own, codes are taken out of
// their bytes by the vector unit, and the DMA puts the parts of a block back into the order of its elements.
//
//   Q8_0   y = d q                                  codes of a byte, as they lie
//   Q4_0   y = d (q - 8)    Q4_1   y = d q + m      low halves of 16 bytes, then high ones
//   Q4_K   y = (d scale[g]) q - dmin min[g]         of each 32 bytes low halves, then high ones: groups 2 i, 2 i + 1
//   Q6_K   y = (d scale[g]) (q - 32)                low or high halves of one of two runs of 32 bytes, two bits more
//
// The others in one way (bit_fields.cpp): whole blocks come, and each code is picked out of its byte.
#pragma once

#include <inlay/core/quantization.hpp>

#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

struct BlockTable {
  NdTensor table{}, y{};  // bytes of each row; [tokens, dim]
  Tensor ids{};
  GgmlType format = GgmlType::Q8_0;
  float scale = 1;

  index block() const { return ggml_format(format).block; }
  index bytes() const { return ggml_format(format).bytes; }
};

void embed_blocks(Core& core, const BlockTable& op);

}  // namespace inlay::npu
