// From K and V as they lie in memory to tiles of f32 in scratch: rows gathered through the block table,
// widened, int8 turned back into (x + offset) * scale. Prefill reads every byte of K and V here, once a
// tile, row after row; decode only int8 whose offsets differ from token to token, and floats that may not
// meet every row. Whatever lies under the end of a sequence is not touched.
#pragma once

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/prefetch.hpp"
#include "cpu_kernels/simd/transpose.hpp"
#include "cpu_kernels/support/dtypes.hpp"

namespace inlay::cpu {

template <class Level, class T> void widen_row(const T* x, index dim, float* y) {
  using F = simd::Floats<Level>;
  index d = 0;
  for (; d + F::size <= dim; d += F::size) F::load(x + d).store(y + d);
  if (d < dim) {
    F::load(x + d, dim - d).store(y + d);
    d += F::size;
  }
  for (; d < padded(dim); d += F::size) F().store(y + d);
}

// Scales that are one a row arrive with step 0, scales of channels with step 1.
struct QuantRow {
  const float *scale, *offset;
  index scale_step, offset_step;
};

INLAY_INLINE QuantRow quant_row(const KvTensor& tensor, index scale_outer, index row, index kv_head) {
  const BroadcastRow scale = broadcast_row(tensor.scale, scale_outer, row, kv_head);
  QuantRow quant{tensor.scale.as<float>() + scale.first, nullptr, scale.step, 0};
  if (tensor.offset.present()) {
    const BroadcastRow offset = broadcast_row(tensor.offset, scale_outer, row, kv_head);
    quant.offset = tensor.offset.as<float>() + offset.first;
    quant.offset_step = offset.step;
  }
  return quant;
}

template <class Level> void widen_row_i8(const std::int8_t* x, index dim, const QuantRow& quant, float* y) {
  using F = simd::Floats<Level>;
  const F row_scale(*quant.scale), row_offset(quant.offset != nullptr ? *quant.offset : 0.0f);
  const bool channels = quant.scale_step != 0, channel_offsets = quant.offset_step != 0;
  index d = 0;
  for (; d + F::size <= dim; d += F::size) {
    const F offset = channel_offsets ? F::load(quant.offset + d) : row_offset;
    ((F::load(x + d) + offset) * (channels ? F::load(quant.scale + d) : row_scale)).store(y + d);
  }
  if (d < dim) {
    const index n = dim - d;
    const F offset = channel_offsets ? F::load(quant.offset + d, n) : row_offset;
    const F value = (F::load(x + d, n) + offset) * (channels ? F::load(quant.scale + d, n) : row_scale);
    select(F::first(n), value, F()).store(y + d);
    d += F::size;
  }
  for (; d < padded(dim); d += F::size) F().store(y + d);
}

// `count` rows of one kv head, from tensor element (outer, row); the first `ahead` of them have a
// successor one tile on.
template <class Level>
void widen_run(const KvTensor& tensor, const void* head, index row_stride, index outer, index row, index kv_head,
               index scale_outer, index count, index ahead, index dim, float* y) {
  const index pad = padded(dim), first = outer * tensor.outer_stride + row * row_stride;
  if (tensor.type != DType::i8) {
    with_float(tensor.type, [&]<class T>(Type<T>) {
      for (index j = 0; j < count; ++j) {
        const T* x = static_cast<const T*>(head) + first + j * row_stride;
        if (j < ahead) simd::prefetch_lines(x + key_tile * row_stride, dim * static_cast<index>(sizeof(T)));
        widen_row<Level>(x, dim, y + j * pad);
      }
    });
    return;
  }
  for (index j = 0; j < count; ++j) {
    const std::int8_t* x = static_cast<const std::int8_t*>(head) + first + j * row_stride;
    if (j < ahead) simd::prefetch_lines(x + key_tile * row_stride, dim);
    widen_row_i8<Level>(x, dim, quant_row(tensor, scale_outer, row + j, kv_head), y + j * pad);
  }
}

enum class Which { keys, values };

// Keys begin..end of a sequence, one row of padded(dim) each.
template <class Level>
void widen_keys(const AttentionProblem& p, const AttentionSequence& sequence, Which which, index kv_head, index begin,
                index end, float* y) {
  const bool keys = which == Which::keys;
  const KvTensor& tensor = keys ? p.k : p.v;
  const index dim = keys ? p.dim : p.v_dim, head_stride = keys ? sequence.k_head_stride : sequence.v_head_stride;
  const index row_stride = keys ? sequence.k_row_stride : sequence.v_row_stride;
  const void* head =
      static_cast<const std::byte*>(keys ? sequence.k : sequence.v) + kv_head * head_stride * bits(tensor.type) / 8;
  if (sequence.blocks == nullptr)
    return widen_run<Level>(tensor, head, row_stride, sequence.outer, sequence.row + begin, kv_head,
                            sequence.scale_outer, end - begin, p.packs_keys ? sequence.keys - begin - key_tile : 0, dim,
                            y);
  for (index j = begin; j < end;) {
    const index row = j % p.block_size, block = sequence.blocks[j / p.block_size];
    const index run = end - j < p.block_size - row ? end - j : p.block_size - row;
    widen_run<Level>(tensor, head, row_stride, block, row, kv_head, block, run, 0, dim, y);
    y += run * padded(dim);
    j += run;
  }
}

// rows [key_tile][padded dim] -> columns [padded dim][key_tile], keys beyond `count` zero.
//
//   k0d0 k0d1 k0d2 ..         k0d0 k1d0 .. k63d0
//   k1d0 k1d1 k1d2 ..   ->    k0d1 k1d1 .. k63d1
template <class Level> void transpose_keys(const float* rows, index count, index dim, float* columns) {
  using F = simd::Floats<Level>;
  const index pad = padded(dim);
  for (index j = 0; j < key_tile; j += F::size)
    for (index d = 0; d < pad; d += F::size) {
      F square[F::size];
      if (j + F::size <= count) {
        INLAY_UNROLL
        for (int i = 0; i < F::size; ++i) square[i] = F::load(rows + (j + i) * pad + d);
      } else {
        INLAY_UNROLL
        for (int i = 0; i < F::size; ++i) square[i] = j + i < count ? F::load(rows + (j + i) * pad + d) : F();
      }
      simd::transpose<Level>(square);
      INLAY_UNROLL
      for (int i = 0; i < F::size; ++i) square[i].store(columns + (d + i) * key_tile + j);
    }
}

}  // namespace inlay::cpu
