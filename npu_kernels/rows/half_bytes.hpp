// Rows of four-bit codes that need not begin or end at a byte:
//
//   byte       |  0  |  1  |  2  |  3  |          a DMA moves whole bytes, and a vector operand starts at a granule:
//   row 0      |a0 a1|a2 ..                       codes that begin in mid-byte are moved by one element with a shuffle,
//   row 1               |b0 b1|b2 ..              and a byte that two rows share is read, changed and written again,
//                                                 by one worker, one row after the other
//
// A tile is one row then (Pattern::max_rows).
#pragma once

#include <functional>
#include <string_view>

#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu::rows {

// Four-bit codes of rows that all begin and end at bytes are as any others.
template <class V> bool in_whole_bytes(const V& view) {
  const auto last = static_cast<std::size_t>(V::rank - 1);
  bool whole = view.extents[last] % 2 == 0;
  if constexpr (V::rank == 2) whole = whole && view.strides[0] % 2 == 0;
  return whole || bits(view.dtype) != 4;
}

// Four-bit codes and the bytes that they lie in.
struct HalfBytes {
  DType dtype = DType::i4;
  index stride = 0;  // codes from row to row
  NdTensor bytes{};
};
template <class V> HalfBytes half_bytes(GlobalMemory& memory, std::string_view name, const V& view, Use use) {
  const index stride = V::rank == 2 ? view.strides[0] : 0, rows = V::rank == 2 ? view.extents[0] : 1;
  const index codes = (rows - 1) * stride + view.extents[static_cast<std::size_t>(V::rank - 1)];
  void* data = const_cast<void*>(static_cast<const void*>(view.data));  // an input is not written
  return {view.dtype, stride,
          memory.bind(std::string(name), View<1>{data, DType::u8, {byte_size(view.dtype, codes)}, {1}}, use)};
}

struct Span {
  index first = 0, count = 0;  // codes
};
using SpanOf = std::function<Span(const Window&)>;

class HalfByteInput {
 public:
  // Of each window a row of at most `longest` codes.
  HalfByteInput(Core& core, std::string_view name, const TileIterator& walk, const HalfBytes& codes, index longest,
                SpanOf span);
  Tensor wide();  // in f32

 private:
  Core& core_;
  const TileIterator& walk_;
  DType dtype_;
  SpanOf span_;
  Input input_;
  Tensor codes_, moved_, next_;
  index step_ = 0;
};

class HalfByteOutput {
 public:
  HalfByteOutput(Core& core, std::string_view name, const HalfBytes& codes, index longest);
  // A row of f32, rounded and saturated.
  void store(index first, const Tensor& values);

 private:
  Core& core_;
  HalfBytes codes_;
  Ring old_, new_;
  Tensor place_, from_, kept_, moved_, inside_, below_;
};

}  // namespace inlay::npu::rows
