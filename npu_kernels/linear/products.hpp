// Sums of products, a tile of [rows, columns] after the other, each handed to the vector unit as it is done:
//
//   load     left, right: chunks of the depth            global -> staging, fractal
//   feed     the part that one product takes             staging -> left, right
//   matrix   sums over the depth                         left x right -> accumulator
//   drain    a finished tile of sums                     accumulator -> vector, or through global memory
//   vector   the consumer's: scales, bias, rounding
//
// Operands may be given in parts (a high and a low half): each pair of parts has sums of its own. And the depth may be
// given in segments with scales of their own: each has sums of its own, too. A tile's sums come step after step,
//
//   segment 0: left 0 x right 0, left 0 x right 1, left 1 x right 0, ..   segment 1: ..
//
// and the consumer adds them up. What a row becomes does not depend on the tiles, as every cut of the depth is one of
// the matrix unit's own.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "npu_kernels/linear/operand.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

// Of the depth: where it starts in the operands, at a block's first column, and how long it is.
struct Segment {
  index first = 0, depth = 0;
};

struct Products {
  std::vector<Operand> left, right;  // parts of [rows, depth] and of [columns, depth]
  DType sum = DType::f32;
  std::vector<Segment> segments;
  index source_bits = 8;     // of an element of the right operand that is laid out anew
  index making_bytes = 0;    // of the vector unit's memory that one takes meanwhile; 0: four times its own
  index making_depth = 1;    // columns that are made together: a group
  double making_passes = 3;  // of the vector unit over an element: it transposes, and makes blocks
  index row_unit = 1;        // rows that the consumer takes together, a power of two
  bool makes_room = false;   // the consumer sees to its own tiles (w4_groups.cpp)
  bool given = false;        // the right operand lies in global memory as the unit takes it: nobody prepares it

  index rows() const { return left.front().rows; }
  index columns() const { return right.front().rows; }
  index first() const { return segments.front().first; }
  index depth() const { return segments.back().first + segments.back().depth - first(); }  // of all segments
  index steps() const { return static_cast<index>(segments.size() * left.size() * right.size()); }
  index longest() const {
    index most = 0;
    for (const Segment& each : segments) most = std::max(most, each.depth);
    return most;
  }
};

// Cuts the depth of a layer into segments that depend on the device, the type and the depth alone: so does the order of
// a row's sums, and its bits do not depend on its batch.
//
// Where the vector unit's memory is staging too, rows of the left operand stay there with all of their depth while the
// right one streams by, once. Deep rows leave room for few of them, and the right operand would come again for the
// others. Segment by segment it comes once, and the sums so far beside it (ProductTiles::parts).
void cut(Products& products, const Device& device, DType dtype);
inline constexpr index cut_granule = 256;  // segments are multiples of it

// The vector unit makes the right operand as it is used, in the staging memory that is its own (MakeTile): each chunk
// is made once for a block of rows of the left operand. Or it makes all of the left operand, which stays
// (ProductTiles::keeps).
using MakeLeft = std::function<void(const Tensor& tile)>;
// Where staging is the matrix unit's alone, they pass through the operand in global memory: each core's vector units
// make the columns that are its own, while its matrix unit multiplies what is there.
using StoreRight = std::function<void(index row, index rows, index k, index depth)>;
// All cores, where each has prepared a part of the left operand. Of a right operand that each core stores for
// itself, or that is given (ProductTiles::early), the first chunks are on their way by then.
using Meet = std::function<void()>;
inline Meet meeting(Core& core, bool meets) {
  return meets ? Meet([&core] { core.sync_all(); }) : Meet();
}

// How the operands come to be there.
struct Makers {
  MakeTile right = {};
  MakeLeft left = {};
  StoreRight store_right = {};
  Meet meet = {};
};
// The vector unit makes the right operand as it is used, in either way; else all of it before the first product.
bool makes_right(const Device& device, index cores, const Products& products);
inline bool stages_for_vector(const Device& device) { return device.same_memory(Space::staging, Space::vector); }

struct ProductTiles {
  index sum_m, sum_n;  // of the result in one accumulator
  index block_m,
      block_n;  // of the result for what is staged at once; one accumulator's where there are several chunks of a step
  index chunk_k, feed_k;       // of a segment in staging, in left and right
  index step_k;                // cores start with chunks of one, two, .. of these; chunk_k: all with whole ones
  index stored_k;              // that a core's vector units store at once
  index vector_m;              // rows that the vector unit takes at once
  std::uint32_t staged;        // chunks on their way
  std::uint32_t accumulators;  // the next product has one while the last one drains
  bool unit;                   // the drain follows the products through one accumulator, granule by granule
  bool keeps;                  // a block's rows of the left operand have all of its depth, and stay for all columns
  bool early;                  // the first chunks of the right operand are loaded before the cores meet
  bool parts;                  // all tiles of a segment come before the next one's (multiply_layer); else tile by tile
  bool own;                    // a core has all rows of its columns, whose right operand it stores
  index handed;                // tiles of sums on their way through global memory
  index row_unit;
};

// Tiles of the result have so many columns, or whole multiples: whole steps of the unit, and whole panels of a weight.
inline index column_unit(const MatrixRate& rate) { return std::lcm(index{rate.n}, panel_rows); }

// How many cores a layer is worth.
std::uint32_t cores_of_layer(const GlobalMemory& memory, index rows, index channels, index depth, index blocks);

ProductTiles product_tiles(const Device& device, index cores, const Products& products, bool made = false);
// Global memory takes longer for the right operand than the matrix unit for the products.
bool bound_by_right(const Device& device, index cores, const Products& products, const ProductTiles& tiles);
// What chunks of both operands take of staging.
index staged_bytes(const Device& device, const Products& products, const ProductTiles& tiles);

// Rows of sums, in the vector unit's memory.
struct Sums {
  Tensor tile;
  index row, column;  // of the result
  index at;           // of these rows among those that this vector unit keeps of the block
  index step;
  bool last;
};
using Consumer = std::function<void(const Sums&)>;

// Of the vector unit's memory, what rows of sums take on their way to the consumer.
index bytes_on_their_way(const Device& device, const ProductTiles& tiles, DType dtype);

// Rows of a tile that one vector unit takes, and of a block that it keeps where there are several steps.
inline index rows_of_vector(index vectors, const ProductTiles& tiles) {
  return round_up(ceil_div(tiles.sum_m, vectors), tiles.row_unit);
}
inline index kept_rows(index vectors, const ProductTiles& tiles) {
  return ceil_div(tiles.block_m, tiles.sum_m) * rows_of_vector(vectors, tiles);
}

struct ProductPlan {
  Products products = {};
  ProductTiles tiles = {};
  Tensor so_far = {};       // [rows, columns], of parts: the sums of those that are done
  Tensor accumulator = {};  // a few tiles for each core, where no path leads from the accumulator to the vector unit
};

Tensor accumulator_workspace(GlobalMemory& memory, const Products& products, const ProductTiles& tiles);

void multiply(Core& core, const ProductPlan& plan, const Consumer& consume, const Makers& makers = {});

}  // namespace inlay::npu
