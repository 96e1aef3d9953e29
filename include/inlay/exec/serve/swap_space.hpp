// Host memory for the blocks of texts that were preempted, beside a cache in the memory of a device: what is copied
// there and back need not be computed a second time (Kwon et al., PagedAttention, 2023: swapping).
//
//   cache   | a | b | c |                    | d | e | a |
//               '---- out, a preempted text ---.      ^
//   space   | b | . | . |                    | b | . | . |--'  back, where it goes on: other blocks, the same bits
#pragma once

#include <inlay/exec/block_pool.hpp>

namespace inlay::exec {

class SwapSpace {
 public:
  virtual ~SwapSpace() = default;

  // `kept` [out], which has no blocks, becomes a sequence of the space with all of the tokens of `sequence`. Refused,
  // and nothing is kept, where there is no room; what the device refuses is its Status.
  virtual Status swap_out(const Sequence& sequence, Sequence& kept) = 0;
  // The tokens of `kept` from block `first` on into the blocks of `sequence`, at the same places.
  virtual Status swap_in(const Sequence& kept, index first, const Sequence& sequence) = 0;
  // Its blocks are free again.
  virtual void forget(Sequence& kept) = 0;

  virtual const BlockPool& blocks() const = 0;
};

}  // namespace inlay::exec
