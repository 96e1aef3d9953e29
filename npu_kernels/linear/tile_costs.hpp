// What tiles of a layer cost by the device's figures: cycles of loads and products, whichever is longer, without an
// event log. product_tiles.cpp chooses by them.
#pragma once

#include "npu_kernels/linear/products.hpp"

namespace inlay::npu {

struct Extents {
  index m, n;
};

// The right operand comes from global memory once, whoever lays it out anew; of `columns` of it each core's vector
// units make theirs.
double laid_out_cycles(const Device& device, const Products& p, index columns);

struct TileEstimate {
  Extents extents;
  double cycles = 0;
};

// Of the tiles of `sums` elements the one whose rounds over the cores take least: products or loads, which is longer,
// of all columns of the depth. `own`: a core has all rows of its columns, and lays them out while the first rows are
// multiplied.
TileEstimate cheapest_tile(const Device& device, const Products& p, Extents all, Extents most, Extents unit, index sums,
                           index cores, bool own);

// Drains of a unit that has one queue for both come between products, and leave no use for a second accumulator.
bool drains_between(const Device& device);

inline constexpr index streamed_k = 512;  // of a chunk of rows: short ones start sooner
// Tiles whose operands both come anew for each.
double streamed_cycles(const Device& device, const Products& p, Extents all, Extents tile, index cores);

// The right operand's columns stream by rows of the left one that stay, some of them where not all fit.
struct KeptBlock {
  Extents sum, block;  // block.m is 0: there is none
  double cycles = 0;
};
// The block that takes the least cycles: products, or loads, and the wait for the first operands of each.
KeptBlock kept_block(const Device& device, const Products& p, Extents all, Extents unit, index sums, index staged,
                     index budget, index cores);

}  // namespace inlay::npu
