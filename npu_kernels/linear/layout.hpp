// How an operand comes to lie as the matrix unit takes it: in the blocks of its type, filled up with zeros.
//
// Elements of the unit's own type keep their bits. Others become f16: an f32 has 24 bits, an f16 eleven, and two halves
// hold 23 of them,
//
//   x s = high + low + rest,    high = f16(x s),   low = f16(x s - high),   |rest| <= 2^-23 |x s|
//
// with the power of two s that brings the largest finite |x| of the row to 2^14 .. 2^15: then no half overflows, and
// what is lost of small x by f16's range is 2^-40 of the row's largest. A bf16 has eight bits: high holds it. Where x
// is not finite, high is what it is, and low means nothing (epilogue.hpp).
//
//   load_vector  rows    vector  s from the largest; scaled, split, made fractal    store  blocks of each half
//
// It is done before the first product, for all cores; or as it is used, in staging where that is the vector unit's
// memory, else stored by the core that multiplies it; or once, in memory that the caller keeps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "npu_kernels/backend/program.hpp"
#include "npu_kernels/linear/operand.hpp"
#include "npu_kernels/linear/products.hpp"

namespace inlay::npu {

inline constexpr float half_scale = 0x1p14f;  // s times `power`

// An operand of the products, and what the vector units make it from.
struct Prepared {
  std::vector<Operand> parts = {};  // high, or high and low; without blocks where it is made in staging
  Tensor power = {};                // [1, rows] f32: 2^14 / s; none: one part of the unit's own type
  RowSource source = {};            // rows or panels
  TileMaker tiles = {};             // or tiles from panels; neither: it is there
  bool as_used = false;             // else all of it before the first product
  index depth_at_once = 0;          // of a tile in staging; 0: as row_tile says

  bool given() const { return source.count == 0 && !tiles; }
  bool before() const { return !given() && !as_used; }
  bool stored() const { return as_used && parts.front().blocked(); }
  NdTensor powers() const { return power.present() ? by_axes(power).at(0, 0) : NdTensor(); }
};

Prepared halves(GlobalMemory& memory, const std::string& name, const RowSource& source, std::size_t parts);
// As it lies, if the unit loads that well for `tiles` tiles of the other operand; else in blocks, or in so many halves.
bool lies_well(const Device& device, const RowSource& source, DType unit, index tiles);
Prepared operand_of(GlobalMemory& memory, const std::string& name, const RowSource& source, DType unit,
                    std::size_t parts, index tiles);

// Rows that the load would change into blocks, at a price that all of the program pays as global memory bounds it,
// while the vector unit can do it beside: it makes them as they are used.
bool made_sooner(const Device& device, index cores, Products products, const RowSource& source);
// A right operand by its source, or by tiles of any kind: products.right has their form and type. It gets blocks in
// global memory where staging is not the vector unit's, or where it is not made as it is used.
Prepared laid_out(GlobalMemory& memory, const std::string& name, const RowSource& source, Products& products);
Prepared laid_out(GlobalMemory& memory, const std::string& name, TileMaker tiles, Products& products);

// What has to be done before the cores meet: each vector unit its share.
void prepare(Core& core, const Prepared& to);
ProductPlan plan_products(GlobalMemory& memory, Products products, const Prepared& right);
// `meets`: the cores have prepared the left operand, and have not met yet.
void multiply(Core& core, Scratch& scratch, const Prepared& right, const ProductPlan& plan, const Consumer& consume,
              bool meets, const MakeLeft& left = {});

// A weight that was laid out once. The channels are those of whole panels, so that the view of the weight alone says
// where everything lies:
//
//   part 0   [depth / block][channels][block]     the last block filled up with zeros
//   part 1   the same, of an f32 in two halves
//   powers   [channels] f32, of halves            each array starts at a multiple of workspace_alignment
struct BlockForm {
  DType unit = DType::f16;
  std::size_t parts = 1;
  bool scaled = false;
};
Packing packing_of(const RowSource& weight, const BlockForm& form, const Device& device,
                   std::function<RowSource(GlobalMemory&)> bind);
// As the product reads them.
Prepared packed_blocks(GlobalMemory& memory, const RowSource& weight, const BlockForm& form, std::byte* at,
                       Use use = Use::in);

}  // namespace inlay::npu
