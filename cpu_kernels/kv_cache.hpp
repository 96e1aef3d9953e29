// Copies with a conversion on the way: memory is the limit. Bytes: the source once, the cache twice
// (a partly written line is read first).
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/kv_cache.hpp>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/support/dtypes.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu::kv {

// A head's part of a block stays in L1 while the tokens of that block are written (vLLM's values
// put 16 of them into one line).
inline constexpr index tokens_together = 16;

inline constexpr index part_size = 64;  // elements that are converted at full width, then dealt out to groups

// max|row| / 127, NaN where the row is not finite: 0 * value is 0 for finite values only.
template <class Level, class S> float int8_scale(const S* row, index dim) {
  using F = simd::Floats<Level>;
  F largest, not_finite;
  for (index i = 0; i < dim; i += F::size) {
    const F v = dim - i < F::size ? F::load(row + i, dim - i) : F::load(row + i);
    largest = max(largest, abs(v));
    not_finite = fma(v, F(0.0f), not_finite);
  }
  return reduce_max(largest) / 127 + reduce_sum(not_finite);
}

template <class Level, class S, class T>
INLAY_INLINE void convert_part(const S* from, T* to, index count, [[maybe_unused]] float scale) {
  using F = simd::Floats<Level>;
  if constexpr (std::is_same_v<S, T>) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  } else {
    // A scale of 0 or NaN stores zeros: NaN, the quotient, becomes 0.
    const auto quantized = [&](F v) { return scale > 0 ? v / F(scale) : F(); };
    index i = 0;
    for (; i + F::size <= count; i += F::size) {
      const F v = F::load(from + i);
      if constexpr (std::is_same_v<T, std::int8_t>)
        quantized(v).store_i8(to + i);
      else
        v.store(to + i);
    }
    if (i == count) return;  // a masked store costs tens of cycles on Zen 5, even of no lanes
    const F v = F::load(from + i, count - i);
    if constexpr (std::is_same_v<T, std::int8_t>)
      quantized(v).store_i8(to + i, count - i);
    else
      v.store(to + i, count - i);
  }
}

// One vector into the cache, in groups of x that lie `group_stride` apart.
template <class Level, class S, class T>
void write_vector(const S* from, T* to, index dim, index x, index group_stride, float scale) {
  if (x == dim) return convert_part<Level>(from, to, dim, scale);
  T part[part_size];
  index group = 0, in_group = 0;
  for (index first = 0; first < dim; first += part_size) {
    const index count = min(dim - first, part_size);
    convert_part<Level>(from + first, part, count, scale);
    for (index i = 0; i < count;) {
      const index n = min(x - in_group, count - i);
      T* const place = to + group * group_stride + in_group;
      if (n == 1)
        *place = part[i];
      else if (n * static_cast<index>(sizeof(T)) == 16)  // vLLM's x: one move instead of a call
        __builtin_memcpy(place, part + i, 16);
      else
        __builtin_memcpy(place, part + i, static_cast<std::size_t>(n) * sizeof(T));
      i += n;
      in_group += n;
      if (in_group == x) ++group, in_group = 0;
    }
  }
}

template <class Level, class S, class T>
INLAY_INLINE void write_token(const ConstView<3>& source, const PagedView<>& cache, const View<3>& scales, index t,
                              index h, index slot) {
  const S* const row = source.as<S>() + t * source.strides[0] + h * source.strides[1];
  const index dim = source.extents[2];
  float scale = 1;
  if constexpr (std::is_same_v<T, std::int8_t>) {
    scale = int8_scale<Level>(row, dim);
    scales.as<float>()[slot_offset(scales_cache(scales), slot, h)] = scale;
  }
  write_vector<Level>(row, cache.as<T>() + slot_offset(cache, slot, h), dim, cache.extents[4], cache.strides[2], scale);
}

template <class Level, class S, class T>
void reshape_and_cache(const Parallel& parallel, const ReshapeAndCache<Host>& op) {
  const index tokens = op.k.extents[0], heads = op.k.extents[1];
  const std::int64_t* const slots = op.slot_mapping.template as<std::int64_t>();
  const index step = op.slot_mapping.strides[0];
  const auto write = [&](index t, index h) {
    const index slot = slots[t * step];
    if (slot < 0) return;
    write_token<Level, S, T>(op.k, op.k_cache, op.k_scale, t, h, slot);
    if (op.v.present()) write_token<Level, S, T>(op.v, op.v_cache, op.v_scale, t, h, slot);
  };
  // Slots that ascend name no slot twice, so tokens are independent. Otherwise heads are, and each
  // goes through the tokens in order: the last one stays, whatever the number of threads.
  const index elements = op.k.size() + (op.v.present() ? op.v.size() : 0);
  const Work work = static_cast<double>(elements) * Work{.bytes = sizeof(S) + sizeof(T), .operations = 4};
  bool ascending = true;
  index last = -1;
  for (index t = 0; t < tokens; ++t)
    if (const index slot = slots[t * step]; slot >= 0) ascending = ascending && slot > last, last = slot;
  if (ascending)
    parallel.ranges(tokens, tokens_together, work, [&](index begin, index end) {
      for (index first = begin; first < end; first += tokens_together)
        for (index h = 0; h < heads; ++h)
          for (index t = first; t < end && t < first + tokens_together; ++t) write(t, h);
    });
  else
    parallel.ranges(heads, 1, work, [&](index begin, index end) {
      for (index t = 0; t < tokens; ++t)
        for (index h = begin; h < end; ++h) write(t, h);
    });
}

template <class Level> Status reshape_and_cache(const Parallel& parallel, const ReshapeAndCache<Host>& op) {
  with_float(op.k.dtype, [&]<class S>(Type<S>) {
    if (op.k_cache.dtype == DType::i8)
      reshape_and_cache<Level, S, std::int8_t>(parallel, op);
    else
      with_float(op.k_cache.dtype, [&]<class T>(Type<T>) { reshape_and_cache<Level, S, T>(parallel, op); });
  });
  return {};
}

// Bytes only: whatever the type.
template <class Level>
void copy_block(const ConstPagedView<>& from, const PagedView<>& to, index source, index target) {
  const index size = bits(from.dtype) / 8;
  const BlockRuns runs = block_runs(from, to);
  const char* const first = static_cast<const char*>(from.data) + source * from.strides[0] * size;
  char* const place = static_cast<char*>(to.data) + target * to.strides[0] * size;
  const std::size_t bytes = static_cast<std::size_t>(runs.run * size);
  for (index a = 0; a < runs.count[0]; ++a)
    for (index b = 0; b < runs.count[1]; ++b)
      for (index c = 0; c < runs.count[2]; ++c)
        for (index d = 0; d < runs.count[3]; ++d) {
          const index i = a * runs.from[0] + b * runs.from[1] + c * runs.from[2] + d * runs.from[3];
          const index j = a * runs.to[0] + b * runs.to[1] + c * runs.to[2] + d * runs.to[3];
          __builtin_memcpy(place + j * size, first + i * size, bytes);
        }
}

// Pairs are independent: check() has seen that no target is written twice or read.
template <class Level> Status copy_blocks(const Parallel& parallel, const CopyBlocks<Host>& op) {
  const index count = op.pairs.extents[0];
  const PagedView<> caches[] = {op.k_cache, op.v_cache, op.k_scale.present() ? scales_cache(op.k_scale) : PagedView<>(),
                                op.v_scale.present() ? scales_cache(op.v_scale) : PagedView<>()};
  constexpr index tensors = 4;
  const index block = byte_size(op.k_cache.dtype, op.k_cache.strides[0]);
  const Work work{.bytes = 4 * static_cast<double>(count * block)};
  parallel(count * tensors, work, [&](index task) {
    const std::int64_t* const pair = op.pairs.template as<std::int64_t>() + task / tensors * op.pairs.strides[0];
    if (const PagedView<>& cache = caches[task % tensors]; !cache.empty())
      copy_block<Level>(cache, cache, pair[0], pair[1]);
  });
  return {};
}

template <class Level> Status swap_blocks(const Parallel& parallel, const SwapBlocks<Host>& op) {
  if (op.source.empty()) return {};
  const index block = byte_size(op.source.dtype, op.source.strides[0]);
  const Work work{.bytes = 2 * static_cast<double>(op.pairs.extents[0] * block)};
  parallel(op.pairs.extents[0], work, [&](index i) {
    const std::int64_t* const pair = op.pairs.template as<std::int64_t>() + i * op.pairs.strides[0];
    copy_block<Level>(op.source, op.target, pair[0], pair[1]);
  });
  return {};
}

}  // namespace inlay::cpu::kv

namespace inlay::cpu {

template <> struct Kernels<ReshapeAndCache<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const ReshapeAndCache<Host>& op, Workspace) {
    return kv::reshape_and_cache<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const ReshapeAndCache<Host>&) { return 0; }
};

template <> struct Kernels<CopyBlocks<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const CopyBlocks<Host>& op, Workspace) {
    return kv::copy_blocks<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const CopyBlocks<Host>&) { return 0; }
};

template <> struct Kernels<SwapBlocks<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const SwapBlocks<Host>& op, Workspace) {
    return kv::swap_blocks<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const SwapBlocks<Host>&) { return 0; }
};

}  // namespace inlay::cpu
