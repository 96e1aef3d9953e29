// How rows are walked through: an operator's operands are planes of rows x columns, a worker has a part of them and
// goes through it tile by tile.
//
//   columns  0 .. n-1   n .. 2n-1   ..            a tile is m rows of n columns: as many as fit into the vector
//   rows    +----------+-----------+              unit's memory, few enough that each worker has a score of them
//   0..m-1  |  step 0  |  step 1   |
//           +----------+-----------+
//   m..2m-1 |  step 2  |  step 3   |
//
// Element by element, each tile is a step of its own, and any worker's. What takes whole rows into account (a norm, a
// softmax) goes through the pieces of its rows several times, in sweeps, where a row does not fit at once; where it
// does, all sweeps are one step:
//
//   whole rows in 2 sweeps, 3 pieces   step 0 1 2 | 3 4 5       sweep 0 0 0 | 1 1 1
//   .. that fit                        step 0                   sweeps 0 and 1
#pragma once

#include <cstdint>
#include <vector>

#include "tile_machine/run/core.hpp"

namespace inlay::npu::rows {

struct Grid {
  index planes = 1, rows = 0, columns = 0;
  index size() const { return planes * rows * columns; }
};

// What the program keeps in the vector unit's memory.
struct Need {
  std::vector<DType> tiles{}, rows{};  // of m rows and n columns, of one row
  index columns = 0;                   // m x 1, of f32

  Need& spare(DType dtype = DType::f32);  // a tile of the program's own
  Need& input(DType dtype);               // Input, widened
  Need& output(DType dtype);              // Output
  Need& row(DType dtype);                 // SharedRow
};

struct Pattern {
  int sweeps = 0;                         // of whole rows; 0: element by element
  index row_group = 0, column_group = 0;  // no tile crosses the border of a group, or it holds whole groups of columns
  index min_columns = 2, max_rows = index{1} << 40;
};

// A tile: where it lies, and how much of it there is.
struct Window {
  index plane = 0, row = 0, rows = 0, column = 0, columns = 0;
  Tensor of(const Tensor& tile) const { return tile.slice(0, rows, 0, columns); }
  Tensor column_of(const Tensor& tile) const { return tile.slice(0, rows, 0, 1); }
  NdTensor of(const NdTensor& planes) const {
    return planes.at(0, plane).slice(0, row, rows).slice(1, column, columns);
  }
};

class TileIterator {
 public:
  TileIterator(const Core& core, const Grid& grid, const Need& need, const Pattern& pattern = {});

  index steps() const { return (last_ - first_) * unit_; }
  Window at(index step) const;
  Shape tile() const { return tile_; }
  index pieces() const { return across_; }  // of a row
  // Of whole rows: the step belongs to the sweep; it is the first, or the last, of its rows in it.
  bool in(index step, int sweep) const { return across_ == 1 || step % unit_ / across_ == sweep; }
  bool opens(index step) const { return step % across_ == 0; }
  bool closes(index step) const { return step % across_ == across_ - 1; }

 private:
  Grid grid_;
  Shape tile_;
  bool whole_;
  index down_ = 0, across_ = 1;  // tiles of a plane: in its rows, in its columns
  index unit_ = 1;               // steps that one worker takes together
  index first_ = 0, last_ = 0;   // units of this worker
};

// Two axes are one plane of rows. Of three, [tokens, heads, dim], the rows are axis 1, most often side by side, if it
// has enough of them, and otherwise axis 0.
NdTensor planes_of(const NdTensor& operand);
int rows_of_planes(const NdTensor& operand);

}  // namespace inlay::npu::rows
