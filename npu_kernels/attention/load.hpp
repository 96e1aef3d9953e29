// What the matrix unit reads of K or V, on its way into staging memory: parts of the tiles, as far ahead as the ring is
// long. The load makes blocks of rows; or where that is another unit's pass which the load waits for, the vector unit
// packs them, one part ahead of the products. So it does where the matrix unit takes columns: it transposes V once for
// all products of a part.
//
//   load_vector  rows    vector  fractal, or V's transpose    feed
//
// Where the way into staging is slow to change rows into blocks and a prompt loads each tile many times, the vector
// units make blocks of the whole cache before:
//
//   [sequence, head of the cache]   keys that are seen, as one fractal tensor of the sequence's length
#pragma once

#include <optional>
#include <vector>

#include "npu_kernels/attention/cache_tiles.hpp"
#include "npu_kernels/attention/plan.hpp"

namespace inlay::npu {

// All vector units share the keys; the caller waits for the others.
void make_cache_blocks(Core& core, const AttentionCall& problem, const CacheBlocks& to);

// Blocks of a cache that hold a part of a tile: read from the table once, for K or V, whichever comes first.
class TableReads {
 public:
  TableReads(Core& core, const AttentionCall& problem, std::size_t parts)
      : core_(core), problem_(problem), blocks_(parts) {}
  const std::vector<index>& of(std::size_t part, const TokenRange& range) {
    if (blocks_[part].empty()) blocks_[part] = blocks_of(core_, problem_, range);
    return blocks_[part];
  }

 private:
  Core& core_;
  const AttentionCall& problem_;
  std::vector<std::vector<index>> blocks_;
};

class PartLoads {
 public:
  // From rows, or from `blocks` of the plan's cache once they are there.
  PartLoads(Core& core, const AttentionCall& problem, const AttentionPlan& plan, const Cached& cached, const char* name,
            Repack repack, const Tensor& blocks);
  // The tiles to come; loads what there is room for.
  void start(const std::vector<TileWork>& works, TableReads& tables);
  void take_blocks() { ready_ = blocks_.present(); }
  // [tokens, dim] of the next part; what the unit before had of the same keys is still there.
  Tensor wait();
  void release();  // and loads the next

 private:
  void fill();
  void load(std::size_t part);
  void convert();  // the next rows

  Core& core_;
  const AttentionCall& problem_;
  const AttentionPlan& plan_;
  const Cached& cached_;
  const Repack repack_;
  const Tensor blocks_;
  const index rows_;  // of a part
  Ring ring_;
  std::optional<Ring> lines_;  // rows on their way to the vector unit
  struct Part {
    const TileWork* work;
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
