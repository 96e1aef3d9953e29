// Which tokens of slot_mapping are written, and what each transfer takes. The host knows the slots, so that of tokens
// with one slot only the last one is moved at all, and no two cores write the same place:
//
//   token   0  1  2  3  4  5  6      tiles   [0 .. 2]      [5 .. 6]       loaded in one transfer each
//   slot    4  5  6 -1  9  9  2      runs    4, 5  | 6     9 | 2          stored in one each, in blocks of two slots
#pragma once

#include <vector>

#include <inlay/core/view.hpp>

#include "tile_machine/device/device.hpp"

namespace inlay::npu::kv {

// Tokens one after another whose slots are neighbours in one block.
struct TokenRun {
  index token, block, in_block, count;
};
struct TokenTile {
  index first, count;      // tokens
  std::size_t begin, end;  // of its runs
};
struct Schedule {
  std::vector<TokenRun> runs;
  std::vector<TokenTile> tiles;
  index live = 0;  // tokens that are written
};

// Tiles of `tokens` at most; no run is longer than `run`.
Schedule schedule(const ConstView<1>& slots, index block_size, index tokens, index run);

}  // namespace inlay::npu::kv
