// Blocks of a cache, or of two of equal shape, from one place to another: through scratch, untouched.
//
//   load_vector  [loops, run] of the source block         store  the same of the target block
//
// What lies side by side in both is one run (core/paged_kv.hpp): a whole block, where its heads and slots follow one
// another. Runs start at granules in scratch; a block that does not fit goes in pieces.
#pragma once

#include <inlay/core/paged_kv.hpp>

#include "tile_machine/run/core.hpp"

namespace inlay::npu::kv {

struct BlockCopy {
  NdTensor source, target;  // [blocks, heads, groups, slots, x]
  BlockRuns runs{};
  int axis = 0;      // of the four loops and the run: the one that is cut,
  index part = 1;    // so many of it in a piece
  index pieces = 0;  // of a block; 0: there is nothing to copy
};

// In `bytes` of the vector memory.
BlockCopy block_copy(const NdTensor& source, const ConstPagedView<>& from, const NdTensor& target,
                     const ConstPagedView<>& to, const Device& device, std::uint64_t bytes);

class BlockCopier {
 public:
  BlockCopier(Core& core, const BlockCopy& copy);
  void move(index source, index target, index piece);

 private:
  NdTensor piece_of(const NdTensor& cache, const index (&strides)[4], index block, index piece) const;

  Core& core_;
  BlockCopy copy_;
  Ring ring_;
};

}  // namespace inlay::npu::kv
