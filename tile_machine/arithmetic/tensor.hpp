// A tensor: a typed window of rows x columns onto a buffer of one memory. A value; it owns nothing.
//
//   nd   row-major, `pitch` elements from row to row
//   nz   fractal: blocks of `block` columns, each block holds its rows one after another. This is what
//        a matrix unit reads in one stream; the last block is filled up with zeros.
//
//            columns 0..block-1      block..2*block-1
//            +------------------+    +------------------+
//     row 0  | 0 1 2 ..         |    | P*block ..       |     P = pitch: rows of a block, padding included
//     row 1  | block ..         |    |                  |
//            +------------------+    +------------------+
//
// Tensors of more axes are rows x columns of what the kernel iterates over: a cache of
// (token, head, element) has token rows and head * element columns.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "inlay/core/dtype.hpp"
#include "tile_machine/device/device.hpp"

namespace inlay::npu {

enum class Use : std::uint8_t { in, out, in_out };  // of a tensor in global memory, by the program

enum class Layout : std::uint8_t { nd, nz };

struct Shape {
  index rows = 0, columns = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};

// Where the bytes of a tensor lie: `runs` runs of `bytes`, `stride` bytes apart.
struct Region {
  std::uint64_t begin = 0, runs = 0, bytes = 0, stride = 0;
};

inline constexpr std::uint32_t none = 0xffffffffu;

struct Tensor {
  std::uint32_t buffer = none;  // index into EventLog::buffers; none: no memory behind it
  std::uint32_t slot = none;    // the ring slot that it is a part of
  std::uint32_t view = none;    // stands for the tensor that load_a or load_b bound to this number
  Space space = Space::global;
  DType dtype = DType::f32;
  Layout layout = Layout::nd;
  bool flipped = false;   // element (r, c) is element (c, r) of the layout
  bool streamed = false;  // of global memory: read or written once, so that a cache need not keep it
  Shape shape;
  std::uint64_t begin = 0;      // byte address of element (0, 0) in its memory
  index pitch = 0, block = 1;   // see above; block is 1 in nd
  const char* error = nullptr;  // why this window does not exist; verbs report it

  bool present() const { return buffer != none; }  // of a workspace that a program may do without
  index rows() const { return shape.rows; }
  index columns() const { return shape.columns; }
  index elements() const { return shape.rows * shape.columns; }

  // The window of `rows` x `columns` at (row, column).
  Tensor slice(index row, index rows, index column, index columns) const;
  Tensor row_slice(index row, index rows) const { return slice(row, rows, 0, shape.columns); }
  Tensor transposed() const;
  Tensor once() const {  // a hint, and no promise
    Tensor result = *this;
    result.streamed = true;
    return result;
  }
  // The same elements in order under other extents; they must lie side by side.
  Tensor reshape(Shape other) const;

  Region region() const;
};

// One row or one column may serve all rows and columns of the result.
inline bool fits(const Tensor& operand, const Tensor& result) {
  return (operand.rows() == result.rows() || operand.rows() == 1) &&
         (operand.columns() == result.columns() || operand.columns() == 1);
}

// Bytes that a buffer of this form takes.
std::uint64_t storage_bytes(const Tensor& tensor);

std::string describe(Shape shape, DType dtype);  // "3 x 4 f16"
std::string describe(const Tensor& tensor);      // "3 x 4 f16 in left"

// A window of up to six axes with a stride each: what a view of the host is to a tile program, and what copies by
// axes move. A value; it owns nothing.
//
//   NdTensor q = memory.bind("q", op.q);                  [sequences, heads, dim], strided inside fused rows
//   core.nd2nz(tile, q.at(0, s).matrix());                the heads of one sequence: rows of a 2-D tensor
//   core.copy(by_axes(tile).split(1, 8).permuted({1, 0, 2}), keys.at(0, block));   vLLM's keys, 8 columns at a time
struct NdTensor {
  static constexpr int max_rank = 6;

  Tensor first;  // 1 x 1: the element at 0, 0, ..
  int rank = 0;
  std::array<index, max_rank> extents{}, strides{};  // strides count elements

  index extent(int axis) const { return extents[static_cast<std::size_t>(axis)]; }
  index stride(int axis) const { return strides[static_cast<std::size_t>(axis)]; }
  bool present() const { return rank != 0; }  // else an operand that was left out
  bool empty() const;
  index size() const;  // elements

  NdTensor slice(int axis, index begin, index count) const;
  NdTensor at(int axis, index i) const;                       // without that axis
  NdTensor split(int axis, index inner) const;                // [.., n * inner, ..] -> [.., n, inner, ..]
  NdTensor permuted(std::initializer_list<int> order) const;  // axis a of the result is axis order[a]
  // One or two axes as rows and columns. Columns must lie side by side, rows one after another.
  Tensor matrix() const;
};

// [rows, columns] of an nd tensor; [blocks, rows, columns of a block] of an nz one, whose blocks must be full.
NdTensor by_axes(const Tensor& tensor);

// The bytes of its elements, each once: axes in the order of their strides, those that lie side by side as one.
std::vector<Region> regions_of(const NdTensor& tensor);
// From the lowest of its bytes to behind the highest.
struct ByteSpan {
  std::int64_t begin, end;
};
ByteSpan span_of(const NdTensor& tensor);
// No two elements share a byte.
bool elements_apart(const NdTensor& tensor);
// Elements side by side in both, in the order of their axes: what a transfer moves in one run.
index common_run(const NdTensor& a, const NdTensor& b);

std::string describe(const NdTensor& tensor);  // "3 x 4 x 8 f16 in global"

// What verbs take beside tensors.

// round: to nearest even, floor, ceil, toward zero. Of casts to integers; floats round to nearest even.
enum class Round : std::uint8_t { nearest, floor, ceil, zero };

// What becomes of an accumulator on its way out, in f32:
//
//   dst[r, c] = f(acc[r, c] * scale * scale_row[0, c] + bias_row[0, c]),  f = max(0, x) with relu
//
// rounded and saturated to dst's type; in integers `zero` is added between the two. i32 to i32 stays exact.
// The rows are optional, f32, in staging memory. Which of all this a device can do is data (Device::drain).
struct DrainOptions {
  float scale = 1;
  bool relu = false;
  Tensor scale_row{}, bias_row{};
  std::int32_t zero = 0;
};

enum class Compare : std::uint8_t { less, less_equal, greater, greater_equal, equal, not_equal };

// A number that a verb is given: an integer counts as one where the elements are integers.
struct Scalar {
  double value = 0;
  bool whole = false;
  constexpr Scalar(float number) : value(number) {}
  constexpr Scalar(std::int32_t number) : value(number), whole(true) {}
};

struct Iota {
  double first = 0, column_step = 1, row_step = 0;
};

}  // namespace inlay::npu
