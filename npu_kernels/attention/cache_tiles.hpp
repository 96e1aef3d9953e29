// Tiles of K or V on their way to the vector unit, in f32: rows of tokens, whatever the cache looks like.
//
//   plain rows     copy [n, dim]                                   one for each run of tokens, or for each block
//   pieces of x    [group, token, x] of a block into one row, then a gather by a table of places:
//   (vLLM)
//                  |group 0: token 0, token 1, .. |group 1: ..      place(t, d) = d / x * pitch + t * step + d % x
//
// Pieces that start at the memory's granule need no gather. int8 becomes (x + offset) * scale.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "npu_kernels/attention/problem.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

// A tile of keys of a sequence and head, and the blocks that hold it (of first / block_size on).
struct TokenRange {
  const AttentionSequence* sequence = nullptr;
  index kv_head = 0, first = 0, count = 0;
  const std::vector<index>* blocks = nullptr;
};

// Read from the table; none without one.
std::vector<index> blocks_of(Core& core, const AttentionCall& problem, const TokenRange& range);

// visit(outer, row, at, count) for each run of a range's tokens: from `at` of the range on they are the rows from `row`
// of `outer` on, or of a block. Key 0 of the sequence is row `row` of `outer`.
template <class Visit>
void for_parts(const AttentionCall& problem, const TokenRange& range, index outer, index row, Visit&& visit) {
  const index size = problem.block_size();
  if (!problem.block_table.present()) return visit(outer, row + range.first, index{0}, range.count);
  for (index at = 0, n; at < range.count; at += n) {
    const index key = range.first + at;
    n = std::min(size - key % size, range.count - at);
    visit((*range.blocks)[static_cast<std::size_t>(key / size - range.first / size)], key % size, at, n);
  }
}
template <class Visit> void for_parts(const AttentionCall& problem, const TokenRange& range, Visit&& visit) {
  for_parts(problem, range, range.sequence->outer, range.sequence->row, visit);
}

// Pieces of x dims of K or V must be gathered. A part that is, of two, takes so much of the memory at most.
inline constexpr index gathered_share = 16;
bool must_gather(const Device& device, const Cached& cached);

// Scales and offsets of K and V: a column of tokens, or a row of channels or of one element.
class ScaleTiles {
 public:
  ScaleTiles(Core& core, const AttentionCall& problem, index tokens);
  void apply(const Cached& cached, const TokenRange& range, const Tensor& tile);

 private:
  bool of_tokens(const NdTensor& scale) const {
    return scale.extent(1) > 1 || (problem_.block_table.present() && scale.extent(0) > 1);
  }
  Tensor part_of(const Tensor& slot, const NdTensor& scale, index tokens) const;
  void load(const Tensor& slot, const NdTensor& scale, const TokenRange& range);

  Core& core_;
  const AttentionCall& problem_;
  TupleRing<2> ring_;
};

class CacheTiles {
 public:
  // `space`: room for a tile in f32, where the table of places is made.
  CacheTiles(Core& core, const AttentionCall& problem, const Cached& cached, const char* name, index tokens,
             ScaleTiles* scales, const Tensor& space);
  // Ahead of widen, which takes the tiles in the same order.
  void load(const TokenRange& range);
  // In f32, in `space`; a tile of an f32 cache is its own, and stays until release.
  Tensor widen(const TokenRange& range, const Tensor& space);
  void release();

 private:
  NdTensor source(const TokenRange& range, index outer, index row, index count) const;
  void make_places(const Tensor& space);
  void gather(const TokenRange& range, const Tensor& tile);
  index groups() const { return cached_.views.front().extent(3); }
  index piece() const { return cached_.views.front().extent(4); }

  Core& core_;
  const AttentionCall& problem_;
  const Cached& cached_;
  ScaleTiles* scales_;
  const bool gathers_;
  std::optional<Ring> ring_;
  index part_rows_ = 0, step_ = 0, pitch_ = 0;  // of what is gathered: tokens, and elements from one to the next
  Tensor tile_, places_;
};

}  // namespace inlay::npu
