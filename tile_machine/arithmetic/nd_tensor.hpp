// A window of up to six axes with a stride each: what a view of the host is to a tile program, and what copies by
// axes move. A value; it owns nothing.
//
//   NdTensor q = machine.bind("q", op.q);                 [sequences, heads, dim], strided inside fused rows
//   core.nd2nz(tile, q.at(0, s).matrix());                the heads of one sequence: rows of a 2-D tensor
//   core.copy(by_axes(tile).split(1, 8).permuted({1, 0, 2}), keys.at(0, block));   vLLM's keys, 8 columns at a time
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "tile_machine/arithmetic/tensor.hpp"

namespace inlay::npu {

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

}  // namespace inlay::npu
