// What the verbs do to bytes. Both modes of the machine call these, so their bits agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tile_machine/arithmetic/host_product.hpp"
#include "tile_machine/arithmetic/tensor.hpp"

namespace inlay::npu {

// A tensor and the bytes behind its element (0, 0).
struct Tile {
  Tensor form;
  std::byte* data = nullptr;
};

namespace tiles {

// Moves of equal shape and type between any two layouts. Rest of the last fractal block: zeros.
void copy(const Tile& to, const Tile& from);
// Of equal extents, whatever their strides; the pointers are to the elements at 0, 0, ..
void copy_by_axes(const NdTensor& to, std::byte* into, const NdTensor& from, const std::byte* out_of);
void drain(const Tile& to, const Tile& acc, const DrainOptions& options, const Tile& scales, const Tile& bias);
void atomic_add(const Tile& to, const Tile& from);  // element by element, rounded to the type of `to`

// acc[m, n] (+)= a[m, k] * b[k, n] in the order of the device: for each block of k_block products,
//   s = a0 b0, then s = s + a_j b_j for ascending j (one rounding where fused), then acc = acc + s;
// k_block 1: acc = acc + a_j b_j one by one. Integers are exact.
void multiply(const Tile& acc, const Tile& a, const Tile& b, bool init, const Numerics& numerics);
// The same bits, by the host's product where there is one.
struct HostBuffers {  // kept from one product to the next
  std::vector<float> rows, panels, lines, sums;
};
void multiply_on_host(const Tile& acc, const Tile& a, const Tile& b, bool init, const Numerics& numerics,
                      const HostProduct& host, HostBuffers& buffers);

// The vector unit: f32 arithmetic on widened elements, one rounding to dst's type. i32 in all operands stays i32 and
// wraps. Bits are those of integers of one type; a shift counts modulo their width, to the right it keeps the sign of
// signed types. b may be one row or one column that serves all of a's.
void binary(VectorOp op, const Tile& dst, const Tile& a, const Tile& b);
void scalar(VectorOp op, const Tile& dst, const Tile& a, Scalar b);
// b's element (r, c / group) serves element (r, c).
void grouped(VectorOp op, const Tile& dst, const Tile& a, const Tile& b, index group);
void unary(VectorOp op, const Tile& dst, const Tile& a);
// dst[r, c] = 1 where a compares with b as asked, else 0. NaN is unequal to all.
void compare(Compare how, const Tile& dst, const Tile& a, const Tile& b);
void compare(Compare how, const Tile& dst, const Tile& a, Scalar b);
// dst[r, c] = first + r * row_step + c * column_step, formed in double and rounded once.
void iota(const Tile& dst, const Iota& sequence);
// dst[r, 0] = sum, max or min over row r, lane by lane: partial[c % lanes], then pairwise halves.
void reduce(VectorOp op, const Tile& dst, const Tile& a, std::uint32_t lanes);
// dst[0, c] = sum or max over column c, row after row.
void reduce_columns(VectorOp op, const Tile& dst, const Tile& a);
// The `values.columns()` largest of each row, from the largest on; equal ones by ascending column, NaN last.
void largest(const Tile& values, const Tile& indices, const Tile& a);
void broadcast_row(const Tile& dst, const Tile& a);
// Rounded once, then saturated; NaN becomes 0 in integers.
void cast(const Tile& dst, const Tile& a, Round round);
void select(const Tile& dst, const Tile& mask, const Tile& yes, const Tile& no);  // mask != 0
void shuffle(const Tile& dst, const Tile& a, const Tile& columns);                // dst[r, c] = a[r, columns[0, c]]
// dst[r, c] = a[r, indices[r, c]], or of a's only row; a column that a does not have gives 0.
void gather(const Tile& dst, const Tile& a, const Tile& indices);
void fill(const Tile& dst, float value);

void write(const Tile& tile, index row, index column, double value);  // rounded and saturated
double read(const Tile& tile, index row, index column);

}  // namespace tiles

}  // namespace inlay::npu
