// K and V as blocks of the matrix unit's, made once: where the way into staging is slow to change rows into blocks and
// a prompt loads each tile many times, the vector units do it before.
//
//   [sequence, head of the cache]   keys that are seen, as one fractal tensor of the sequence's length
#pragma once

#include <vector>

#include "npu_kernels/attention/problem.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

struct CacheBlocks {
  Tensor k, v;               // workspace; none where rows are loaded as they lie
  std::vector<index> first;  // of a sequence's keys, in rows of the workspace of one head
  index keys = 0;            // of all sequences
  bool present() const { return k.present(); }
  // [keys, dim] of K or V of a sequence and a head.
  Tensor of(const Tensor& all, const AttentionProblem& problem, index sequence, index kv_head, index dim) const;
};

// Do they pay? So many units load K and V.
bool blocks_pay(const Device& device, const AttentionProblem& problem, const std::vector<WorkUnit>& units);
CacheBlocks cache_blocks(GlobalMemory& memory, const AttentionProblem& problem);
// All vector units share the keys; the caller waits for the others.
void make_cache_blocks(Core& core, const AttentionProblem& problem, const CacheBlocks& to);

}  // namespace inlay::npu
