// A table of numbers in global memory that the scalar unit reads in ascending order, such as the blocks of a
// sequence: parts of it are brought into the vector unit's memory ahead of their use, so that no read waits for
// global memory.
//
//   ScalarTable blocks(core, "blocks", op.block_table.at(0, sequence).matrix(), 64);
//   core.gather_blocks(tile, pool, blocks, first, block_size);     or    blocks.at(i)
//
//   row    |0 .. 63|64 .. 127|128 ..
//           read     loaded    loaded once 0 .. 63 is behind
#pragma once

#include <string_view>

#include "tile_machine/run/core.hpp"

namespace inlay::npu {

class ScalarTable {
 public:
  using Site = SourceLocation;

  // `row` is 1 x n of i32 or i64; two parts of `part` entries are in memory.
  ScalarTable(Core& core, std::string_view name, const Tensor& row, index part, Site site = Site::current());
  ScalarTable(const ScalarTable&) = delete;
  ScalarTable& operator=(const ScalarTable&) = delete;
  ~ScalarTable();

  // Entry i, in or behind the part that was read last. Stops the program until its part is there.
  index at(index i, Site site = Site::current());

 private:
  void load();

  Core& core_;
  Tensor row_, tile_;
  index part_;
  Site site_;
  Ring ring_;
  index loaded_ = 0, waited_ = 0;  // parts
};

}  // namespace inlay::npu
