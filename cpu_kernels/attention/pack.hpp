// From K and V as they lie in memory to tiles of f32 in scratch: rows gathered through the block table,
// widened, int8 turned back into (x + offset) * scale. Many rows read all of V here, once a tile, and K if it is
// int8; few only int8 whose offsets differ from token to token, and floats that may not meet every row. Whatever lies
// under the end of a sequence is not touched.
#pragma once

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/attention/rows.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/support/dtypes.hpp"

namespace inlay::cpu {

struct AsItIs {
  template <class F> INLAY_INLINE F operator()(F x) const { return x; }
};

// y = finish(x)
template <class Level, class T, class Finish = AsItIs>
void widen_row(const T* x, index dim, float* y, Finish finish = {}) {
  using F = simd::Floats<Level>;
  index d = 0;
  for (; d + F::size <= dim; d += F::size) finish(F::load(x + d)).store(y + d);
  if (d < dim) {
    finish(F::load(x + d, dim - d)).store(y + d);
    d += F::size;
  }
  for (; d < padded(dim); d += F::size) F().store(y + d);
}

// Scales that are one a row arrive with step 0, scales of channels with step 1.
struct QuantRow {
  const float *scale, *offset;
  index scale_step, offset_step;
  index scale_row, offset_row;  // from row to row

  // The row `rows` further on.
  INLAY_INLINE QuantRow after(index rows) const {
    QuantRow quant = *this;
    quant.scale += rows * scale_row;
    if (offset != nullptr) quant.offset += rows * offset_row;
    return quant;
  }
};

INLAY_INLINE QuantRow quant_row(const AttentionKv<Host>& tensor, index scale_outer, index row, index kv_head) {
  const BroadcastRow scale = broadcast_row(tensor.scale, scale_outer, row, kv_head);
  const auto row_step = [](const ConstView<4>& view)
                            INLAY_INLINE_LAMBDA { return view.extents[1] == 1 ? index{0} : view.strides[1]; };
  QuantRow quant{tensor.scale.as<float>() + scale.first, nullptr, scale.step, 0, row_step(tensor.scale), 0};
  if (tensor.offset.present()) {
    const BroadcastRow offset = broadcast_row(tensor.offset, scale_outer, row, kv_head);
    quant.offset = tensor.offset.as<float>() + offset.first;
    quant.offset_step = offset.step;
    quant.offset_row = row_step(tensor.offset);
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

// Keys begin..end of a sequence, one row of padded(dim) each.
template <class Level>
void widen_keys(const AttentionCall& p, const HostSequence& sequence, Which which, index kv_head, KeyRange keys,
                float* y, RowPrefetch ahead) {
  const AttentionKv<Host>& tensor = p.cached(which);
  const index row_stride = sequence.rows(which).row_stride, pad = padded(tensor.dim);
  const std::byte* const head = head_of(p, sequence, which, kv_head);
  // widen_of(run) gives what takes row j of the run.
  const auto each_row = [&]<class T>(Type<T>, auto&& widen_of) {
    each_run(p, sequence, keys.begin, keys.end, [&](const KeyRun& run) {
      const T* x = reinterpret_cast<const T*>(head) + run.outer * tensor.cache.strides[0] + run.row * row_stride;
      const auto widen = widen_of(run);
      for (index j = 0; j < run.count; ++j, x += row_stride) {
        ahead.ask(1);
        widen(x, j, y + (run.at + j) * pad);
      }
    });
  };
  if (tensor.dtype() != DType::i8)
    with_float(tensor.dtype(), [&]<class T>(Type<T> type) {
      each_row(type, [&](const KeyRun&) {
        return [&](const T* x, index, float* to) { widen_row<Level>(x, tensor.dim, to); };
      });
    });
  else
    each_row(Type<std::int8_t>{}, [&](const KeyRun& run) {
      return [&, quant = quant_row(tensor, run.scale_outer, run.row, kv_head)](
                 const std::int8_t* x, index j, float* to) { widen_row_i8<Level>(x, tensor.dim, quant.after(j), to); };
    });
}

}  // namespace inlay::cpu
