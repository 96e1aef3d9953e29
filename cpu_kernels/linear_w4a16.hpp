// One row: memory-bound. Each word of codes is read once and turned into weights in registers; four
// panels at a time hide the latency of the sums. Bytes: codes, scales, zeros.
//
// Several rows: a block of 256 slots of a few panels becomes f32 weights once, in a buffer that stays
// in L1, and every row of a chunk runs over it in register tiles:
//
//   x, packed by tiles of R rows       weights of a block, [256][registers]
//     tile 0 | s0: r0 .. rR | s1 ..      s0 | n0 n1 .. n31 |
//     tile 1 | s0: r0 .. rR | s1 ..      s1 | n0 n1 .. n31 |
//
// The chunk's part of x (256 slots) and its totals stay in L2 over the panels of a job.
#pragma once

#include <atomic>

#include "cpu_kernels/linear_w4a16_int8.hpp"
#include "cpu_kernels/linear_w4a16_weight.hpp"

namespace inlay::cpu {

// total[0 .. 16P) = the sums of one row over the panels from `first` on. x: a float for each slot.
template <class Level, int Bits, int P> void w4_row(const W4Weight& w, index first, const float* x, float* total) {
  using F = simd::Floats<Level>;
  using Group = Panels<Level, P>;
  const Group panels(w, first);
  F sum[Group::count];
  for (index begin = 0; begin < w.slots; begin += w4_block) {
    F block[Group::count];
    for_each_weight<Level, Bits>(w, panels, begin, w.block_end(begin),
                                 [&](auto v, F weight, index s)
                                     INLAY_INLINE_LAMBDA { block[v] = fma(weight, F(x[s]), block[v]); });
    simd::unroll<Group::count>([&](auto v) INLAY_INLINE_LAMBDA { sum[v] = sum[v] + block[v]; });
  }
  simd::unroll<Group::count>([&](auto v) INLAY_INLINE_LAMBDA { sum[v].store(total + v * F::size); });
}

// Registers: R * columns sums, columns weights, one broadcast. AVX-512 has 32, AVX2 16.
template <class Level> struct W4Tile {
  using F = simd::Floats<Level>;
  static constexpr int rows = F::size == 16 ? 12 : F::size == 8 ? 6 : 4;
  static constexpr int panels = F::size == 16 ? 2 : 1;
  static constexpr int columns = Panels<Level, panels>::count;  // registers
  static constexpr index width = panels * w4_panel;             // channels
};

inline constexpr index w4_chunk_rows = 240;  // of 256 slots: 240 KiB of x
inline constexpr index w4_job_panels = 8;    // 120 KiB of totals for 240 rows

// total[r][c] += the block's sums of R rows: x[s * tile rows + r], weights[s * width + c].
template <class Level, int R>
void w4_tile(const float* x, const float* weights, index count, float* total, index total_stride) {
  using F = simd::Floats<Level>;
  using Tile = W4Tile<Level>;
  F sum[R * Tile::columns];
  for (index s = 0; s < count; ++s) {
    F weight[Tile::columns];
    simd::unroll<Tile::columns>(
        [&](auto c) INLAY_INLINE_LAMBDA { weight[c] = F::load(weights + s * Tile::width + c * F::size); });
    simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
      const F value(x[s * Tile::rows + r]);
      simd::unroll<Tile::columns>([&](auto c) INLAY_INLINE_LAMBDA {
        sum[r * Tile::columns + c] = fma(weight[c], value, sum[r * Tile::columns + c]);
      });
    });
  }
  simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
    simd::unroll<Tile::columns>([&](auto c) INLAY_INLINE_LAMBDA {
      float* to = total + r * total_stride + c * F::size;
      (F::load(to) + sum[r * Tile::columns + c]).store(to);
    });
  });
}

// The smallest built tile that has `rows` rows: what lies beyond them is padding.
template <class Level>
INLAY_INLINE void w4_rows(index rows, const float* x, const float* weights, index count, float* total, index stride) {
  if (rows <= 2) return w4_tile<Level, 2>(x, weights, count, total, stride);
  if (rows <= 4) return w4_tile<Level, 4>(x, weights, count, total, stride);
  if constexpr (W4Tile<Level>::rows > 8)
    if (rows <= 8) return w4_tile<Level, 8>(x, weights, count, total, stride);
  w4_tile<Level, W4Tile<Level>::rows>(x, weights, count, total, stride);
}

template <class Level, int Bits>
void w4_weights(const W4Weight& w, index first, index begin, index end, float* weights) {
  using F = simd::Floats<Level>;
  constexpr int panels = W4Tile<Level>::panels;
  for_each_weight<Level, Bits>(w, Panels<Level, panels>(w, first), begin, end,
                               [&](auto v, F weight, index s) INLAY_INLINE_LAMBDA {
                                 weight.store(weights + (s - begin) * W4Tile<Level>::width + v * F::size);
                               });
}

// `rows` rows of packed x over `panels` panels from `first` on, into totals [rows][8 panels].
template <class Level, int Bits>
void w4_job(const W4Weight& w, index first, index panels, const float* x, index rows, float* weights, float* totals) {
  using Tile = W4Tile<Level>;
  const index stride = w4_job_panels * w4_panel;
  const index padded = (rows + Tile::rows - 1) / Tile::rows * Tile::rows;
  for (index i = 0; i < padded * stride; ++i) totals[i] = 0;
  for (index begin = 0; begin < w.slots; begin += w4_block) {
    const index end = w.block_end(begin);
    for (index panel = 0; panel < panels; panel += Tile::panels) {
      w4_weights<Level, Bits>(w, first + panel, begin, end, weights);
      for (index row = 0; row < rows; row += Tile::rows)
        w4_rows<Level>(rows - row, x + row * w.slots + begin * Tile::rows, weights, end - begin,
                       totals + row * stride + panel * w4_panel, stride);
    }
  }
}

// A row of x as floats in the order of slots, `step` floats apart.
template <class Level, class T> void w4_gather(const LinearW4a16<Host>& op, const T* x, float* to, index step) {
  const auto* perm = op.perm.present() ? op.perm.as<std::int32_t>() : nullptr;
  for (index s = 0; s < op.slots(); ++s) {
    const index input = perm ? perm[s] : s;
    to[s * step] = input < 0 ? 0 : static_cast<float>(x[input]);
  }
}

template <class Level, int Bits>
void w4_one_row(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  constexpr index together = simd::Floats<Level>::size == 16 ? 4 : simd::Floats<Level>::size == 8 ? 2 : 1;
  const W4Weight w(op);
  const float* x = op.x.as<float>();
  if (op.x.dtype != DType::f32 || op.perm.present()) {
    float* row = WorkspaceCutter(workspace).take<float>(w.slots);
    with_float(op.x.dtype, [&]<class T>(Type<T>) { w4_gather<Level>(op, op.x.as<T>(), row, 1); });
    x = row;
  }
  parallel((w.panels + together - 1) / together, [&](index job) {
    const index first = job * together;
    float total[together * w4_panel];
    w4_row<Level, Bits, together>(w, first, x, total);
    w4_store<Level>(op, 0, first * w4_panel, together * w4_panel, total);
  });
}

template <class Level> INLAY_INLINE index w4_padded_rows(index rows) {
  return (rows + W4Tile<Level>::rows - 1) / W4Tile<Level>::rows * W4Tile<Level>::rows;
}

template <class Level, int Bits>
void w4_many_rows(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  using Tile = W4Tile<Level>;
  const W4Weight w(op);
  const index rows = op.x.extents[0], tiles = w4_padded_rows<Level>(rows) / Tile::rows;
  WorkspaceCutter cutter(workspace);
  float* x = cutter.take<float>(tiles * Tile::rows * w.slots);
  parallel.ranges(tiles, 1, [&](index begin, index end) {
    with_float(op.x.dtype, [&]<class T>(Type<T>) {
      for (index t = begin * Tile::rows; t < end * Tile::rows; ++t) {
        float* to = x + t / Tile::rows * Tile::rows * w.slots + t % Tile::rows;
        if (t < rows)
          w4_gather<Level>(op, op.x.as<T>() + t * op.x.strides[0], to, Tile::rows);
        else
          for (index s = 0; s < w.slots; ++s) to[s * Tile::rows] = 0;
      }
    });
  });
  // Few rows: a job is one pass over neighbouring panels. Many: x is reused over eight panels.
  const index job_panels = tiles == 1 ? Tile::panels : w4_job_panels;
  const index blocks = (w.panels + job_panels - 1) / job_panels;
  const index chunks = (tiles * Tile::rows + w4_chunk_rows - 1) / w4_chunk_rows;
  const index workers = parallel.width;
  const index chunk_floats = w4_chunk_rows * w4_job_panels * w4_panel;
  float* weights = cutter.take<float>(workers * w4_block * Tile::width);
  float* totals = cutter.take<float>(workers * chunk_floats);
  // Workers fetch jobs one by one, so that a slow core delays one job only.
  std::atomic<index> next{0};
  parallel(workers, [&](index worker) {
    float* const my_weights = weights + worker * w4_block * Tile::width;
    float* const my_totals = totals + worker * chunk_floats;
    for (index job = next.fetch_add(1, std::memory_order_relaxed); job < blocks * chunks;
         job = next.fetch_add(1, std::memory_order_relaxed)) {
      const index chunk = job / blocks, first = job % blocks * job_panels;
      const index begin = tiles * chunk / chunks * Tile::rows, stop = tiles * (chunk + 1) / chunks * Tile::rows;
      const index end = stop < rows ? stop : rows;
      const index panels = w.panels - first < job_panels ? w.panels - first : job_panels;
      w4_job<Level, Bits>(w, first, panels, x + begin * w.slots, end - begin, my_weights, my_totals);
      for (index t = begin; t < end; ++t)
        w4_store<Level>(op, t, first * w4_panel, panels * w4_panel, my_totals + (t - begin) * w4_job_panels * w4_panel);
    }
  });
}

template <class Level> std::size_t linear_w4a16_bytes(const Parallel& parallel, const LinearW4a16<Host>& op) {
  using Tile = W4Tile<Level>;
  const index rows = op.x.extents[0], slots = op.slots();
  if (op.compute == W4Compute::int8_activations) return w4_int8_bytes<Level>(op);
  if (rows == 1) return op.x.dtype != DType::f32 || op.perm.present() ? WorkspaceCutter::padded<float>(slots) : 0;
  if (rows == 0) return 0;
  return WorkspaceCutter::padded<float>(w4_padded_rows<Level>(rows) * slots) +
         WorkspaceCutter::padded<float>(parallel.width * w4_block * Tile::width) +
         WorkspaceCutter::padded<float>(parallel.width * w4_chunk_rows * w4_job_panels * w4_panel);
}

template <class Level> Status linear_w4a16(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  const auto run = [&]<int Bits>(std::integral_constant<int, Bits>) {
    if (op.compute == W4Compute::int8_activations)
      w4_int8<Level, Bits>(parallel, op, workspace);
    else if (op.x.extents[0] == 1)
      w4_one_row<Level, Bits>(parallel, op, workspace);
    else
      w4_many_rows<Level, Bits>(parallel, op, workspace);
  };
  if (op.y.empty()) return {};
  if (op.bits == 4)
    run(std::integral_constant<int, 4>{});
  else
    run(std::integral_constant<int, 8>{});
  return {};
}

}  // namespace inlay::cpu
