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

#include <cstdint>
#include <string>

#include "inlay/core/dtype.hpp"
#include "tile_machine/device/device.hpp"

namespace inlay::npu {

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
  std::uint32_t buffer = none;  // index into Tape::buffers; none: no memory behind it
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

}  // namespace inlay::npu
