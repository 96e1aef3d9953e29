// The right operand made where it is used: packed words, transposed into rows and made fractal, in the memory that the
// matrix unit reads. Nothing of it passes through global memory again.
//
//   load_vector  words    vector  transposed -> (codes: unpacked, times their group's scale) -> fractal    feed
#pragma once

#include <string>

#include "npu_kernels/linear/products.hpp"
#include "npu_kernels/linear/w4_rows.hpp"

namespace inlay::npu {

// Rows whose columns are filled up with zeros to whole blocks.
class FilledUp {
 public:
  FilledUp(Core& core, Scratch& scratch, DType dtype, index depth)
      : core_(core), filled_(scratch.alloc("w, filled up", {panel_rows, depth}, dtype)) {}
  Tensor operator()(const Tensor& w, index padded);  // valid until the next one

 private:
  Core& core_;
  Tensor filled_;
};

// Elements of the unit's own type.
class RepackedTiles {
 public:
  RepackedTiles(Core& core, Scratch& scratch, const RowSource& source, const ProductTiles& tiles);
  void operator()(const Tensor& tile, index row, index rows, index k, index depth);

 private:
  Core& core_;
  index depth_;  // at once
  RowReader reader_;
  FilledUp filled_up_;
};

// Elements of the unit's own type, stored in the blocks of an operand: the vector units of a core share the panels.
class StoredBlocks {
 public:
  StoredBlocks(Core& core, Scratch& scratch, const RowSource& source, const Operand& to, index depth);
  void operator()(index row, index rows, index k, index depth);

 private:
  Core& core_;
  Operand to_;
  RowReader reader_;
  FilledUp filled_up_;
  Ring out_;
};

// A right operand of the unit's own type that does not lie as the unit takes it. It is laid out anew as it is used, in
// staging or stored by the core that multiplies it; else all of it is stored before the first product. What has been
// packed is there.
struct LaidOut {
  RowSource source;
  Operand blocks;  // in global memory; not blocked where it is made in staging
  bool made = false;
  bool packed = false;
  bool stored() const { return made && blocks.blocked(); }
};
// Gives products.right, of which form, type and source_bits stand there, blocks in global memory where it needs them:
// where staging is not the vector unit's, or where it is not made as it is used. True: it is.
bool make_or_store(GlobalMemory& memory, const std::string& name, Products& products, bool may_be_made = true);
// Rows that the load would change into blocks, at a price that all of the program pays as global memory bounds it,
// while the vector unit can do it beside: it makes them as they are used.
bool made_sooner(const Device& device, index cores, Products products, const RowSource& source);
LaidOut laid_out(GlobalMemory& memory, const std::string& name, const RowSource& source, Products& products);
LaidOut as_packed(const RowSource& source, const Operand& packed, Products& products);
// What has to be done before the cores meet.
void lay_out_before(Core& core, const LaidOut& right);
// `meets`: the cores have prepared the left operand, and have not met yet.
void multiply(Core& core, Scratch& scratch, const LaidOut& right, const Products& products, const ProductTiles& tiles,
              const Tensor& handover, const Consumer& consume, bool meets);

// Codes without zero points, with scales of f16, as f16: w = f16((q - 2^(bits - 1)) scale), rounded once.
class DequantizedTiles {
 public:
  static bool takes(const W4Weight& weight);
  DequantizedTiles(Core& core, Scratch& scratch, const W4Weight& weight, const ProductTiles& tiles);
  void operator()(const Tensor& tile, index row, index rows, index k, index depth);

 private:
  Core& core_;
  W4Weight weight_;
  index depth_;
  RowReader codes_, scales_;
  Tensor bytes_, halves_;
};

}  // namespace inlay::npu
