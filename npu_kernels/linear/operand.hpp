// A matrix [rows, depth] on its way to the matrix unit. In global memory it lies as rows, as a caller gave it, or
// as the fractal blocks that the unit reads, as a workspace holds what the vector unit prepared:
//
//   rows      | k0 k1 k2 ..          |        the load changes the layout, at a price
//   blocks    [depth / block][rows][block]    whole runs: the load is a plain copy
#pragma once

#include <string>

#include "tile_machine/run/core.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

struct Operand {
  index rows = 0, depth = 0;
  DType dtype = DType::f16;
  Tensor lines;         // nd
  NdTensor blocks;      // or these: the last one is filled up with zeros
  bool turned = false;  // blocks of the transpose, [rows / block][depth][block]: packed f16 where blocks are panels
  bool blocked() const { return blocks.present(); }
};

// Elements [first, first + count) of a vector; the one of a vector that has one for all, so many times.
NdTensor one_each(const NdTensor& vector, index first, index count);

// The unit's load takes rows that lie one after another.
bool loads_as_rows(const NdTensor& rows);
// Rows become blocks as they are loaded, slower than blocks load: worth a pass of the vector unit where they are loaded
// for `tiles` tiles of the other operand.
bool blocks_pay(const Device& device, index tiles);

Operand rows_operand(const NdTensor& rows);
Operand blocked_operand(GlobalMemory& memory, const std::string& name, index rows, index depth, DType dtype);

// The packed weight of f16 as it lies, where the unit's blocks are its panels.
Operand panels_operand(const NdTensor& panels, index rows);

// Rows [row, row + rows) and columns [k, k + depth) into a staged nz tile; k is the first of a block. Of a turned
// operand the tile has its columns as rows.
void stage(Core& core, const Tensor& tile, const Operand& operand, index row, index rows, index k, index depth);

// A tile in nz, of whole blocks, becomes the blocks of its rows and columns.
void store_blocks(Core& core, const Operand& operand, const Tensor& tile, index row, index k);

}  // namespace inlay::npu
