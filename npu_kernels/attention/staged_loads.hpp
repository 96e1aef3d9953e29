// What the matrix unit reads, on its way into staging memory: parts of the tiles of K or V, as far ahead as the ring is
// long. The load makes blocks of rows; or where that is another unit's pass which the load waits for, the vector unit
// makes them, one part ahead of the products. So it does where the matrix unit takes columns: it turns V once for all
// products of a part.
//
//   load_vector  rows    vector  fractal, or V's transpose    feed
#pragma once

#include <optional>
#include <vector>

#include "npu_kernels/attention/cache_tiles.hpp"
#include "npu_kernels/attention/matrix_tiles.hpp"

namespace inlay::npu {

// Blocks of a cache that hold a part of a tile: read from the table once, for K or V, whichever comes first.
class TableReads {
 public:
  TableReads(Core& core, const AttentionProblem& problem, std::size_t parts)
      : core_(core), problem_(problem), blocks_(parts) {}
  const std::vector<index>& of(std::size_t part, const TokenRange& range);

 private:
  Core& core_;
  const AttentionProblem& problem_;
  std::vector<std::vector<index>> blocks_;
};

class PartLoads {
 public:
  // From rows, or from `blocks` once they are there.
  PartLoads(Core& core, const AttentionProblem& problem, const Cached& cached, const CacheBlocks& cache,
            const Tensor& blocks, const char* name, const MatrixPlan& plan, bool turned, std::uint32_t depth);
  // The tiles to come; loads what there is room for.
  void start(const std::vector<KeyWork>& works, TableReads& tables);
  void take_blocks() { ready_ = blocks_.present(); }
  // [tokens, dim] of the next part; what the unit before had of the same keys is still there.
  Tensor wait();
  void release();  // .. and the next load

 private:
  void fill();
  void load(std::size_t part);
  void make();  // .. of the next rows

  Core& core_;
  const AttentionProblem& problem_;
  const Cached& cached_;
  const CacheBlocks& cache_;
  const Tensor blocks_;
  const index rows_;   // of a part
  const index parts_;  // of a tile
  const bool turned_;  // by the vector unit
  Ring ring_;
  std::optional<Ring> lines_;  // rows on their way to the vector unit
  struct Part {
    const KeyWork* work;
    index first, count;  // of the sequence
    index uses;          // by works one after the other, with as many keys or fewer
  };
  std::vector<Part> all_;
  TableReads* tables_ = nullptr;
  bool ready_ = false;  // blocks are there
  std::size_t loaded_ = 0, made_ = 0, waited_ = 0, released_ = 0;
  index waits_ = 0, releases_ = 0;  // of the part that is used
  std::vector<index> counts_;       // keys of each use
  std::size_t use_ = 0;
  Tensor tile_;
};

}  // namespace inlay::npu
