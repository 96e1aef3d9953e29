// A matrix [rows, depth] in global memory, and how it comes to the units. The matrix unit loads rows, as a caller gave
// them, or the fractal blocks that it reads:
//
//   rows      | k0 k1 k2 ..          |                   the load changes the layout, at a price
//   blocks    [depth / block][rows][block]               whole runs: the load is a plain copy
//   turned    [rows / block][depth][block]               blocks of the transpose: packed f16 where blocks are panels
//
// The vector unit reads rows, or the panels of packed weights, where words of consecutive columns of 16 rows lie side
// by side:
//
//   word 0 | row 0 | row 1 | .. | row 15 |              | word 0 | word 1 | ..  row 0
//   word 1 | row 0 | row 1 | .. | row 15 |  transposed  | word 0 | word 1 | ..  row 1
//     ..                                                   ..
//
// A word of f32, f16: one column; of 32 bits: two of bf16, four of i8 or u8, eight of u4.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

inline constexpr index panel_rows = 16;

// What the matrix unit loads.
struct Operand {
  index rows = 0, depth = 0;
  DType dtype = DType::f16;
  Tensor lines = {};     // nd
  NdTensor blocks = {};  // or these: the last one is filled up with zeros
  bool turned = false;
  bool blocked() const { return blocks.present(); }
};

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

// What the vector unit reads.
struct RowSource {
  NdTensor rows = {};    // [rows, depth]
  NdTensor panels = {};  // or [panels, words, 16], of f32, f16 or i32
  DType dtype = DType::f32;
  index count = 0, depth = 0;
  NdTensor less = {};  // of each row, i8, taken from its elements as they are made into tiles of f16; or not present
  bool packed() const { return panels.present(); }
  index per_word() const { return bits(panels.first.dtype) / bits(dtype); }
};

// Tiles of a phase of a program: they are given back with it, once everything before has read and written them.
class Scratch {
 public:
  explicit Scratch(Core& core) : core_(core) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (core_.unwinding()) return;
    core_.barrier_all();
    for (const Tensor& tile : tiles_) core_.release(tile);
  }
  Tensor alloc(std::string_view name, Shape shape, DType dtype) {
    tiles_.push_back(core_.alloc(name, Space::vector, shape, dtype));
    return tiles_.back();
  }

 private:
  Core& core_;
  std::vector<Tensor> tiles_;
};

// The same bytes, of another type of the same size.
inline Tensor as(Tensor tile, DType dtype) {
  tile.dtype = dtype;
  return tile;
}

// Slots of a ring of small things that an epilogue reads: one where flags are few, as each slot may take one.
inline std::uint32_t rings_ahead(const Device& device) { return device.sync.flags < 16 ? 1 : 2; }

inline constexpr std::uint32_t panels_ahead = 6;  // a panel is short against the latency of global memory

// Tiles of rows in the vector unit's memory, one at a time.
class RowReader {
 public:
  // Up to `rows` and `depth` at once; of panels 16 rows, which start a panel, and whole words.
  RowReader(Core& core, Scratch& scratch, const RowSource& source, index rows, index depth,
            std::uint32_t on_their_way = 2);
  Tensor read(index row, index rows, index k, index depth);
  void release() { tiles_.release(); }

 private:
  Core& core_;
  RowSource source_;
  Ring tiles_;
  Tensor turned_;
};

// Elements [first, first + count) of a vector; the one of a vector that has one for all, so many times.
NdTensor one_each(const NdTensor& vector, index first, index count);

// Rows, and columns of whole blocks, that a vector unit prepares at once.
struct RowTile {
  index rows, depth;
};
RowTile row_tile(const Device& device, DType dtype, index depth, index bytes_of_element);
// How many rows a vector unit takes where rows may be cut anywhere: few of them are for all vector units.
index rows_at_once(const Core& core, index rows);

// Rows [row, row + rows) and columns [k, k + depth) made into an nz tile by the vector unit.
using MakeTile = std::function<void(const Tensor& tile, index row, index rows, index k, index depth)>;
// Makes tiles of an operand, so many rows and columns at once, with so many loads on their way.
using TileMaker = std::function<MakeTile(Core&, Scratch&, RowTile at_once, std::uint32_t ahead)>;
// Of an object that makes them, whatever it is.
template <class Maker> MakeTile tiles_of(std::shared_ptr<Maker> maker) {
  return
      [maker](const Tensor& tile, index row, index rows, index k, index depth) { (*maker)(tile, row, rows, k, depth); };
}

// Tiles of elements as they are; bytes may become f16, less something.
TileMaker repacked(const RowSource& source, DType to);

// visit(row, rows, k, depth) of the pieces of a tile that its maker takes at once.
template <class Visit> void for_pieces(index row, index rows, index k, index depth, RowTile at_once, Visit&& visit) {
  for (index r = 0; r < rows; r += at_once.rows)
    for (index i = 0; i < depth; i += at_once.depth)
      visit(row + r, std::min(at_once.rows, rows - r), k + i, std::min(at_once.depth, depth - i));
}

// Tiles as they are made, stored in the blocks of an operand.
class StoredTiles {
 public:
  StoredTiles(Core& core, MakeTile make, const Operand& to, RowTile at_once);
  // The vector units of a core share the rows; columns are as many as are taken at once (StoreRight).
  void operator()(index row, index rows, index k, index depth);
  void all();  // each vector unit of each core its share

 private:
  void piece(index row, index rows, index k, index depth);

  Core& core_;
  MakeTile make_;
  Operand to_;
  RowTile at_once_;
  Ring out_;
};

}  // namespace inlay::npu
