// Bytes: one row of the table read a token, one row of y written. A row of quantized blocks is
// widened block by block: the codes of a block to bytes, then scale and offset a register at a time.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/embedding.hpp>

#include <cstring>

#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

// y = ((codes - zero) * d - minimum) * scale for a group that shares d: each product rounded on its own, as
// dequantize_row rounds, so that f32 output with scale 1 has its bits.
template <class Level, class Y>
INLAY_INLINE void emit_group(const std::int8_t* codes, index count, float zero, float d, float minimum, float scale,
                             Y* y) {
  using F = simd::Floats<Level>;
  registers<F>(0, count, [&](index i, auto n) {
    const F v = (load<F>(codes + i, n) - F(zero)) * F(d) - F(minimum);
    store(v * F(scale), y + i, n);
  });
}

// Files promise no alignment: every block is copied out before it is read.
template <class Level, class Block, class Y> void emit_blocks(const std::uint8_t* row, Y* y, index dim, float scale) {
  for (index i = 0; i < dim; i += Block::size, row += sizeof(Block)) {
    Block block;
    std::memcpy(&block, row, sizeof(Block));
    std::int8_t room[Block::size];
    const std::int8_t* const numbers = ggml::numbers(block, room);
    for (index g = 0; g < Block::groups; ++g)
      emit_group<Level>(numbers + Block::group * g, Block::group, static_cast<float>(Block::zero),
                        ggml::scale(block, g), ggml::minimum(block, g), scale, y + i + Block::group * g);
  }
}

template <class Level, class T, class Y> void scaled_copy(const T* row, Y* y, index dim, float scale) {
  using F = simd::Floats<Level>;
  registers<F>(0, dim, [&](index i, auto n) { store(load<F>(row + i, n) * F(scale), y + i, n); });
}

template <class Level> Status embedding(const Parallel& parallel, const Embedding<Host>& op) {
  const index dim = op.y.extents[1];
  with_float(op.y.dtype, [&]<class Y>(Type<Y>) {
    const Work work = static_cast<double>(op.y.size()) * Work{.bytes = 2 * sizeof(Y), .operations = 4};
    parallel.ranges(op.y.extents[0], elementwise_grain / (dim + 1) + 1, work, [&](index begin, index end) {
      for (index t = begin; t < end; ++t) {
        const index id =
            op.ids.dtype == DType::i64 ? row_of<std::int64_t>(op.ids, t)[0] : row_of<std::int32_t>(op.ids, t)[0];
        Y* y = row_of<Y>(op.y, t);
        switch (op.table.dtype) {
          case DType::u8:
            with_block(op.format, [&]<class Block>(std::type_identity<Block>) {
              emit_blocks<Level, Block>(row_of<std::uint8_t>(op.table, id), y, dim, op.scale);
            });
            break;
          case DType::i8:
            scaled_copy<Level>(row_of<std::int8_t>(op.table, id), y, dim, *row_of<float>(op.row_scale, id) * op.scale);
            break;
          default:
            with_float(op.table.dtype,
                       [&]<class T>(Type<T>) { scaled_copy<Level>(row_of<T>(op.table, id), y, dim, op.scale); });
        }
      }
    });
  });
  return {};
}

template <> struct Kernels<Embedding<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Embedding<Host>& op, Workspace) {
    return embedding<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Embedding<Host>&) { return 0; }
};

}  // namespace inlay::cpu
