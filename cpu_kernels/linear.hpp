// y = x * w^T + bias. Three levels of blocks (Goto and van de Geijn, 2008):
//
//   chunk of rows      128 rows of x, packed for the tiles, 96 KiB of L2 per block of k
//   group of panels    what a thread takes at a time; its sums stay in L2 until the last block of k
//   block of k         192 k: the slices of two panels, 24 KiB of L1, meet all row tiles in turn
//
// One row is the same loop with one tile: the panels of a group stream by once, four abreast, at AVX-512 one after the
// other (linear/one_row.hpp).
// Bytes: the weight once for every 128 rows; 2 flops a weight and row.
//
// Other cuts, 512 x 4096 x 4096 in f32 on one Zen 5 core, share of the fma peak: chunks of 256 rows with
// 256 k 0.77 and with 192 k 0.81; of 512 rows 0.82; of 128 rows with 8 panels 0.85 and with 16 panels 0.82.
// In pairs of bf16, half as large: chunks of 256 rows 0.84 of the dot product's peak, of 128 rows 0.86 (Zen 4).
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/linear.hpp>

#include "cpu_kernels/linear/blocks.hpp"
#include "cpu_kernels/linear/one_row.hpp"
#include "cpu_kernels/linear/rows.hpp"
#include "cpu_kernels/support/jobs.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

inline DType weight_type(const Linear<Host>& op) {
  return op.weight.present() ? op.weight.dtype : op.weight_rows.dtype;
}

// Does the dot product instruction multiply it?
template <class Level> bool takes_bf16_dot(const Linear<Host>& op) {
  const bool are_bf16 = op.x.dtype == DType::bf16 && weight_type(op) == DType::bf16;
  return simd::has_dot_bf16<Level> && (are_bf16 || op.compute == LinearCompute::bf16_products);
}

// How a problem is cut up. scratch_bytes and the kernel read the same plan.
template <class Level> struct LinearPlan {
  index rows, n, k;     // k: with the zero that makes it even where two k move together
  index chunks, tiles;  // of rows; of the largest chunk
  index panels, group;  // of the weight; of a task
  index workers;        // threads, each with sums and slices of its own

  LinearPlan(const Parallel& parallel, const Linear<Host>& op) {
    const DType weight = weight_type(op);
    const bool pairs =
        weight == DType::bf16 || (op.weight_rows.present() && weight == DType::f16) || takes_bf16_dot<Level>(op);
    rows = op.x.extents[0];
    n = op.y.extents[1];
    k = pairs ? even(op.x.extents[1]) : op.x.extents[1];
    chunks = (rows + linear_row_chunk - 1) / linear_row_chunk;
    tiles = linear_tiles<Level>.count(chunk_rows());
    panels = (n + linear_panel - 1) / linear_panel;
    const index width = parallel.width < 1 ? 1 : parallel.width;
    // Panels of the thread that has most. Smaller groups read x more often: worth it for a sixteenth.
    const auto longest = [&](index size) { return groups_of(groups_of(panels, size), width) * size; };
    group = linear_group;
    for (index smaller = linear_group - 2; smaller > 0; smaller -= 2)
      if (longest(smaller) * 17 < longest(group) * 16) group = smaller;
    if (tiles <= 1) group = tile_panels<Level>(static_cast<int>(rows));
    if (op.weight.present() && linear_streams<Level>(rows))
      group = min(panels / (width * Parallel::pieces_a_thread) + 1, linear_row_panels);
    const index groups = groups_of(panels, group);
    workers = min(width, groups);
  }
  index chunk_rows() const { return chunks > 0 ? (rows + chunks - 1) / chunks : 0; }
  index x_elements() const { return chunk_rows() * k; }
  index sums() const { return (group + max_tile_panels) * chunk_rows() * linear_panel; }
  static constexpr index slices = max_tile_panels * linear_k_block * linear_panel;

  std::size_t worker_bytes() const {
    return WorkspaceCutter::padded<float>(sums()) + WorkspaceCutter::padded<float>(slices);
  }
  std::size_t bytes() const {
    if (rows == 0 || n == 0) return 0;
    return WorkspaceCutter::padded<float>(x_elements()) + static_cast<std::size_t>(workers) * worker_bytes();
  }
};

// How the weight comes: slices for the tiles, of a packed weight whose elements have so many bytes (0: it is not
// packed); for few rows of x, columns of an unpacked weight at once.
template <class Kind> struct WeightForm {
  SliceOf<Kind> slice;
  index packed_element = 0;
  FewRowsOf<Kind> few_rows = nullptr;
};

// One chunk of rows of a problem: x packed, then groups of panels until none is left.
template <class Level, class Kind> class LinearChunk {
 public:
  using X = typename PackedXOf<Kind>::Element;
  using W = typename PanelOf<Kind>::Element;

  LinearChunk(const LinearPlan<Level>& plan, const Linear<Host>& op, const WeightSource& source, WeightForm<Kind> form,
              index chunk)
      : plan_(plan), op_(op), source_(source), form_(form) {
    first_row_ = plan.rows * chunk / plan.chunks;
    rows_ = plan.rows * (chunk + 1) / plan.chunks - first_row_;
    tiles_ = linear_tiles<Level>.count(rows_);
  }

  void run(const Parallel& parallel, Workspace workspace) const {
    WorkspaceCutter cut(workspace);
    X* const x = reinterpret_cast<X*>(cut.take<float>(plan_.x_elements()));
    // A short x is packed before another thread could wake up.
    constexpr index worth_a_thread = 16384;
    const index blocks = (plan_.k + linear_k_block - 1) / linear_k_block;
    const index grain = worth_a_thread / (rows_ * linear_k_block) + 1;
    const Work packing{.bytes = 8 * static_cast<double>(rows_ * plan_.k)};
    parallel.ranges(blocks, grain, packing, [&](index begin, index end) {
      for (index tile = 0; tile < tiles_; ++tile)
        for (index b = begin; b < end; ++b) pack_tile(tile, b * linear_k_block, x);
    });
    // Which thread computes a group changes nothing in it.
    Jobs groups(groups_of(plan_.panels, plan_.group));
    std::byte* const of_workers = cut.take<std::byte>(0);
    const double elements = static_cast<double>(plan_.n * plan_.k);
    const Work work{.bytes = elements * sizeof(W), .operations = 2 * static_cast<double>(rows_) * elements};
    parallel(plan_.workers, work, [&](index worker) {
      WorkspaceCutter mine(
          {of_workers + static_cast<std::size_t>(worker) * plan_.worker_bytes(), plan_.worker_bytes()});
      float* const sums = mine.take<float>(plan_.sums());
      float* const slices = mine.take<float>(LinearPlan<Level>::slices);
      groups.each([&](index g) INLAY_INLINE_LAMBDA {
        const index first = g * plan_.group;
        const index count = min(plan_.panels - first, plan_.group);
        if (form_.few_rows != nullptr && rows_ <= few_rows<Level>)
          multiply_few(x, first, count, sums);
        else if (linear_streams<Level>(rows_) && form_.slice == packed_slice<Level, Kind>)
          stream(x, first, count, sums);
        else
          multiply(x, first, count, sums, reinterpret_cast<W*>(slices));
        finish(first, count, sums);
      });
    });
  }

 private:
  TileOfRows rows_of(index tile) const { return linear_tiles<Level>.tile(tile, rows_); }

  // A block of k of a tile of x.
  void pack_tile(index tile, index begin, X* x) const {
    const index count = min(plan_.k - begin, linear_k_block);
    const index there = op_.x.extents[1] - begin, stride = op_.x.strides[0];
    const TileOfRows here = rows_of(tile);
    const index row = here.first, rows = here.rows;
    X* const out = x + (begin * rows_ + row * count) / x_step<Kind>;
    with_float(op_.x.dtype, [&]<class T>(Type<T>) {
      const T* const from = op_.x.template as<T>() + (first_row_ + row) * stride + begin;
      if constexpr (is_bf16_dot<Kind>)
        pack_x_pairs<Level>(from, stride, rows, there, count, out);
      else
        pack_x<Level>(from, stride, rows, there, count, out);
    });
    if constexpr (!is_bf16_dot<Kind>)
      if (op_.compute == LinearCompute::bf16_products) round_to_bf16<Level>(out, rows * count);
  }

  // sums[panel][row][16] of the panels first .. first + count. Beyond the last panel the tiles repeat
  // it, into sums that nobody reads.
  void multiply(const X* x, index first, index count, float* sums, W* slices) const {
    const index abreast = tile_panels<Level>(static_cast<int>(rows_of(0).rows));
    each_block(count, abreast, sums, [&](index begin, index some, index p, float* const* out) {
      const W* slice[max_tile_panels];
      for (index i = 0; i < abreast; ++i)
        slice[i] = i == 0 || p + i < count
                       ? form_.slice(source_, first + p + i, begin, some, slices + i * linear_k_block * linear_panel)
                       : slice[i - 1];
      const std::byte* next[max_tile_panels];
      for (index i = 0; i < abreast; ++i) next[i] = fetched(first, p + i, count, begin);
      multiply_block(x + begin * rows_ / x_step<Kind>, slice, abreast, begin, some, out, next);
    });
  }

  // The same of one row, or two.
  void stream(const X* x, index first, index count, float* sums) const {
    if constexpr (linear_streams<Level>(1))
      simd::with_count<linear_row_most>(rows_, [&](auto r) INLAY_INLINE_LAMBDA {
        for (index p = 0; p < count; ++p)
          linear_row<Level, Kind, r>(x, static_cast<const W*>(source_.data) + (first + p) * source_.stride, plan_.k,
                                     sums + p * r * linear_panel);
      });
  }

  void multiply_few(const X* x, index first, index count, float* sums) const {
    const index abreast = turned_panels<Level>(static_cast<int>(rows_));
    each_block(count, abreast, sums, [&](index begin, index some, index p, float* const* out) {
      form_.few_rows(rows_, x + begin * rows_ / x_step<Kind>, source_, first + p, begin, some, out, begin > 0);
    });
  }

  // body(begin, some, p, out): a block of k, begin .. begin + some, of the panels p .. p + abreast of the group,
  // whose sums are out[]. An empty k is one empty block, which makes the sums zero.
  template <class Body> void each_block(index count, index abreast, float* sums, Body&& body) const {
    index begin = 0;
    do {
      const index some = min(plan_.k - begin, linear_k_block);
      for (index p = 0; p < count; p += abreast) {
        float* out[max_tile_panels];
        for (index i = 0; i < abreast; ++i) out[i] = sums + (p + i) * rows_ * linear_panel;
        body(begin, some, p, out);
      }
      begin += linear_k_block;
    } while (begin < plan_.k);
  }

  // What the tiles of a slice fetch meanwhile. A single tile streams through memory and fetches what
  // lies ahead: on one thread 8 rows of f32 went from 25 to 31 GB/s, f16 from 19 to 23. Several tiles
  // find the slice in L1 and fetch the next one together, each its part: 512 rows
  // of f32 from 179 to 191 GFLOP/s.
  //
  // One row of bf16, two threads, GB/s while reading gave 66 to 70 (Zen 4, medians of three to six by turns):
  //
  //   ahead, bytes        2048   1024   512    0    | eight panels side by side: 2048, 512
  //   4096 x 4096         46.4   53.6   52.8   55.1 |                            53.2  51.5
  //   14336 x 4096        47.9   53.1   53.2   55.6 |                            54.8  53.1
  //   4864 x 896          43.2   47.6   45.2   44.8 |                            49.7  46.9
  //
  // and with 38 GB/s of reading 0.93, 0.98, 0.98 and 0.98 of it. f32, f16 and avx2 are alike: 1024 is 0 to 15% faster.
  const std::byte* fetched(index first, index panel, index count, index begin) const {
    const auto packed = [&](index at, index k) {
      return static_cast<const std::byte*>(source_.data) +
             (at * source_.stride + k * linear_panel) * form_.packed_element;
    };
    constexpr index near = 1024, far = 4096;  // bytes
    if (tiles_ == 1) return packed(first + panel, begin) + (rows_ <= 2 ? near : far);
    const index abreast = tile_panels<Level>(static_cast<int>(rows_of(0).rows));
    const bool last = panel + abreast >= count;
    return last ? packed(first + panel % abreast, begin + linear_k_block) : packed(first + panel + abreast, begin);
  }

  void multiply_block(const X* x, const W* const* slice, index abreast, index begin, index count, float* const* sums,
                      const std::byte* const* next) const {
    const index steps = count / step_of<Kind>;
    const index step_bytes = step_of<Kind> * linear_panel * form_.packed_element;
    for (index tile = 0; tile < tiles_; ++tile) {
      const TileOfRows here = rows_of(tile);
      const index row = here.first, rows = here.rows;
      const index panels = tile_panels<Level>(static_cast<int>(rows));
      for (index p = 0; p < abreast; p += panels) {
        float* out[max_tile_panels];
        for (index i = 0; i < panels; ++i) out[i] = sums[p + i] + row * linear_panel;
        Prefetch fetch{.ahead = {}, .bytes = step_bytes / tiles_};
        for (index i = 0; i < panels; ++i) fetch.ahead[i] = next[p + i] + tile * steps * fetch.bytes;
        simd::with_count<max_tile_rows<Level>>(rows, [&](auto r) INLAY_INLINE_LAMBDA {
          linear_tile<Level, Kind, r>(x + row * count / x_step<Kind>, slice + p, steps, out, begin > 0, fetch);
        });
      }
    }
  }

  // Adds the bias and rounds to y's type.
  void finish(index first, index count, const float* sums) const {
    using F = simd::Floats<Level>;
    for (index p = 0; p < count; ++p, sums += rows_ * linear_panel) {
      const index channel = (first + p) * linear_panel;
      const index width = min(plan_.n - channel, linear_panel);
      float bias[linear_panel] = {};
      if (op_.bias.present())
        with_float(op_.bias.dtype, [&]<class B>(Type<B>) {
          for (index i = 0; i < width; ++i) bias[i] = static_cast<float>(op_.bias.template as<B>()[channel + i]);
        });
      with_float(op_.y.dtype, [&]<class T>(Type<T>) {
        for (index r = 0; r < rows_; ++r) {
          T* const y = op_.y.template as<T>() + (first_row_ + r) * op_.y.strides[0] + channel;
          for (index i = 0; i < width; i += F::size) {
            const F sum = F::load(sums + r * linear_panel + i) + F::load(bias + i);
            width - i < F::size ? sum.store(y + i, width - i) : sum.store(y + i);
          }
        }
      });
    }
  }

  const LinearPlan<Level>& plan_;
  const Linear<Host>& op_;
  const WeightSource& source_;
  WeightForm<Kind> form_;
  index first_row_, rows_, tiles_;
};

// Where the registers are few, or widening is slow, two row tiles and more share widened slices.
// With AVX-512 it is free in every tile: 238 of 249 GFLOP/s with f16 and bf16 as with f32.
template <class Level> bool widens_once(const LinearPlan<Level>& plan) {
  return simd::Floats<Level>::size < 16 && plan.tiles > 1;
}

template <class Level> Status linear(const Parallel& parallel, const Linear<Host>& op, Workspace workspace) {
  const LinearPlan<Level> plan(parallel, op);
  if (plan.rows == 0 || plan.n == 0) return {};
  const bool packed = op.weight.present();
  // Of a weight without inputs nothing is read, but addresses in it are formed, and it may have no memory.
  const void* const memory = packed ? op.weight.data : op.weight_rows.data;
  const WeightSource source{memory ? memory : op.y.data, plan.n, op.x.extents[1],
                            packed ? op.weight.strides[0] : op.weight_rows.strides[0]};
  const auto chunks = [&]<class Kind>(WeightForm<Kind> form) {
    for (index chunk = 0; chunk < plan.chunks; ++chunk)
      LinearChunk<Level, Kind>(plan, op, source, form, chunk).run(parallel, workspace);
  };
  with_float(weight_type(op), [&]<class W>(Type<W>) {
    using Dot = Bf16Dot<bf16>;
    if constexpr (simd::has_dot_bf16<Level>)
      if (takes_bf16_dot<Level>(op)) {
        if (!packed) return chunks(WeightForm<Dot>{rows_bf16_slice<Level, W>, 0, turned_tiles<Level, Dot, W>});
        // A single tile rounds in its registers, more share what is rounded. Behind an odd k lies another panel.
        if constexpr (!std::is_same_v<W, bf16>)
          if (plan.tiles > 1 || source.k < plan.k) return chunks(WeightForm<Dot>{bf16_slice<Level, W>, sizeof(W)});
        return chunks(WeightForm<Bf16Dot<W>>{packed_slice<Level, Bf16Dot<W>>, sizeof(W)});
      }
    if constexpr (!simd::has_dot_bf16<Level> && !std::is_same_v<W, bf16>)
      if (op.compute == LinearCompute::bf16_products)
        return packed && plan.tiles <= 1
                   ? chunks(WeightForm<AsBf16<W>>{packed_slice<Level, AsBf16<W>>, sizeof(W)})
                   : chunks(packed ? WeightForm<float>{rounded_slice<Level, widened_slice<Level, W>>, sizeof(W)}
                                   : WeightForm<float>{rounded_slice<Level, rows_slice<Level, W>>});
    if (!packed) return chunks(WeightForm<float>{rows_slice<Level, W>, 0, turned_tiles<Level, float, W>});
    if constexpr (!std::is_same_v<W, float>)
      if (widens_once(plan)) return chunks(WeightForm<float>{widened_slice<Level, W>, sizeof(W)});
    chunks(WeightForm<W>{packed_slice<Level, W>, sizeof(W)});
  });
  return {};
}

template <> struct Kernels<Linear<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Linear<Host>& op, Workspace workspace) {
    return linear<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel& parallel, const Linear<Host>& op) {
    return LinearPlan<Level>(parallel, op).bytes();
  }
};

}  // namespace inlay::cpu
