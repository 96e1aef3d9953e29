// What the verbs do to bytes. Both modes of the machine call these, so their bits agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "inlay/core/isa.hpp"
#include "npu_kernels/machine/arithmetic/tensor.hpp"

namespace inlay::npu {

// A tensor and the bytes behind its element (0, 0).
struct Tile {
  Tensor form;
  std::byte* data = nullptr;
};

// round: to nearest even, floor, ceil, toward zero. Of casts to integers; floats round to nearest even.
enum class Round : std::uint8_t { nearest, floor, ceil, zero };

// dst = f(scale * acc), f = max(0, x) with relu; rounded and saturated to dst's type.
struct DrainOptions {
  float scale = 1;
  bool relu = false;
};

namespace tiles {

// Moves of equal shape and type between any two layouts. Rest of the last fractal block: zeros.
void copy(const Tile& to, const Tile& from);
void drain(const Tile& to, const Tile& acc, const DrainOptions& options);
void atomic_add(const Tile& to, const Tile& from);  // element by element, rounded to the type of `to`

// acc[m, n] (+)= a[m, k] * b[k, n] in the order of the device: for each block of k_block products,
//   s = a0 b0, then s = s + a_j b_j for ascending j (one rounding where fused), then acc = acc + s;
// k_block 1: acc = acc + a_j b_j one by one. Integers are exact.
void multiply(const Tile& acc, const Tile& a, const Tile& b, bool init, const Numerics& numerics);
// The same bits with the host's vectors.
struct HostBuffers {  // kept from one product to the next
  std::vector<float> rows, panels, lines, sums;
};
void multiply_on_host(const Tile& acc, const Tile& a, const Tile& b, bool init, const Numerics& numerics, Isa isa,
                      HostBuffers& buffers);

// The vector unit: f32 arithmetic on widened elements, one rounding to dst's type; i32 in i32.
// b may be one row or one column that serves all of a's.
void binary(VectorOp op, const Tile& dst, const Tile& a, const Tile& b);
void scalar(VectorOp op, const Tile& dst, const Tile& a, float b);
void unary(VectorOp op, const Tile& dst, const Tile& a);
// dst[r, 0] = sum or max over row r, lane by lane: partial[c % lanes], then pairwise halves.
void reduce(VectorOp op, const Tile& dst, const Tile& a, std::uint32_t lanes);
void broadcast_row(const Tile& dst, const Tile& a);
void cast(const Tile& dst, const Tile& a, Round round);
void select(const Tile& dst, const Tile& mask, const Tile& yes, const Tile& no);  // mask != 0
void unpack4(const Tile& dst, const Tile& a);                                     // i4, u4 -> i8, u8, f16 ..
void shuffle(const Tile& dst, const Tile& a, const Tile& columns);                // dst[r, c] = a[r, columns[0, c]]
void fill(const Tile& dst, float value);

double read(const Tile& tile, index row, index column);

}  // namespace tiles

}  // namespace inlay::npu
