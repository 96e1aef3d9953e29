// Bytes: one row of the table read a token, one row of y written. A row of quantized blocks is
// widened block by block: the codes of a block to bytes, then scale and offset a register at a time.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/embedding.hpp>

#include <cstring>

#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

// y = (codes * d - minimum) * scale for a group that shares d: each product rounded on its own, as
// dequantize_row rounds, so that f32 output with scale 1 has its bits.
template <class Level, class Code, class Y>
INLAY_INLINE void emit_group(const Code* codes, index count, float bias, float d, float minimum, float scale, Y* y) {
  using F = simd::Floats<Level>;
  registers<F>(0, count, [&](index i, auto n) {
    const F v = (load<F>(codes + i, n) - F(bias)) * F(d) - F(minimum);
    store(v * F(scale), y + i, n);
  });
}

// Element j in the low nibble of byte j, element j + bytes in its high one.
INLAY_INLINE void split_nibbles(const std::uint8_t* packed, index bytes, std::uint8_t* codes) {
  for (index j = 0; j < bytes; ++j) {
    codes[j] = packed[j] & 15;
    codes[j + bytes] = packed[j] >> 4;
  }
}

template <class Level, class Y> void emit_block(const ggml::Q8_0& block, float scale, Y* y) {
  emit_group<Level>(block.q, 32, 0, block.d, 0, scale, y);
}
template <class Level, class Y> void emit_block(const ggml::Q4_0& block, float scale, Y* y) {
  std::uint8_t codes[32];
  split_nibbles(block.q, 16, codes);
  emit_group<Level>(codes, 32, 8, block.d, 0, scale, y);
}
template <class Level, class Y> void emit_block(const ggml::Q4_1& block, float scale, Y* y) {
  std::uint8_t codes[32];
  split_nibbles(block.q, 16, codes);
  emit_group<Level>(codes, 32, 0, block.d, -static_cast<float>(block.m), scale, y);
}
template <class Level, class Y> void emit_block(const ggml::Q4_K& block, float scale, Y* y) {
  const float d = block.d, dmin = block.dmin;
  for (index pair = 0; pair < 4; ++pair) {
    std::uint8_t codes[64];
    split_nibbles(block.q + 32 * pair, 32, codes);
    for (index g = 0; g < 2; ++g) {
      const ggml::ScaleMin s = ggml::scale_min(block, 2 * pair + g);
      emit_group<Level>(codes + 32 * g, 32, 0, d * static_cast<float>(s.scale), dmin * static_cast<float>(s.min), scale,
                        y + 64 * pair + 32 * g);
    }
  }
}
template <class Level, class Y> void emit_block(const ggml::Q6_K& block, float scale, Y* y) {
  const float d = block.d;
  for (index half = 0; half < 2; ++half) {
    std::uint8_t codes[128];
    const std::uint8_t *low = block.low + 64 * half, *high = block.high + 32 * half;
    for (index l = 0; l < 32; ++l) {
      codes[l] = static_cast<std::uint8_t>((low[l] & 15) | (high[l] & 3) << 4);
      codes[l + 32] = static_cast<std::uint8_t>((low[l + 32] & 15) | (high[l] >> 2 & 3) << 4);
      codes[l + 64] = static_cast<std::uint8_t>(low[l] >> 4 | (high[l] >> 4 & 3) << 4);
      codes[l + 96] = static_cast<std::uint8_t>(low[l + 32] >> 4 | (high[l] >> 6) << 4);
    }
    for (index g = 0; g < 8; ++g)
      emit_group<Level>(codes + 16 * g, 16, 32, d * static_cast<float>(block.scales[8 * half + g]), 0, scale,
                        y + 128 * half + 16 * g);
  }
}

// Files promise no alignment: every block is copied out before it is read.
template <class Level, class Block, class Y> void emit_blocks(const std::uint8_t* row, Y* y, index dim, float scale) {
  for (index i = 0; i < dim; i += Block::size, row += sizeof(Block)) {
    Block block;
    std::memcpy(&block, row, sizeof(Block));
    emit_block<Level>(block, scale, y + i);
  }
}

template <class Level, class Y> void emit_row(GgmlType format, const std::uint8_t* row, Y* y, index dim, float scale) {
  switch (format) {
    case GgmlType::Q8_0: return emit_blocks<Level, ggml::Q8_0>(row, y, dim, scale);
    case GgmlType::Q4_0: return emit_blocks<Level, ggml::Q4_0>(row, y, dim, scale);
    case GgmlType::Q4_1: return emit_blocks<Level, ggml::Q4_1>(row, y, dim, scale);
    case GgmlType::Q4_K: return emit_blocks<Level, ggml::Q4_K>(row, y, dim, scale);
    case GgmlType::Q6_K: return emit_blocks<Level, ggml::Q6_K>(row, y, dim, scale);
    default: return;  // check() has refused it
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
          case DType::u8: emit_row<Level>(op.format, row_of<std::uint8_t>(op.table, id), y, dim, op.scale); break;
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
