// int8_activations: the dot product of a segment's codes with its x as bytes is exact in int32.
//
//   y[t,n] = sum over segments  step_x * (scale * sum(q * xq) + offset * sum(xq))
//   y[t,n] = sum over segments  step_x * (scale * (sum(q * xq) - middle * sum(xq)))      symmetric
//
// A row has the same chain of roundings in every tile: its bits do not depend on the other rows.
//
// Many rows: a job is four panels. Its scales become floats once, and all rows pass by its codes, which stay in L2.
#pragma once

#include "cpu_kernels/linear/w4a16_pairs.hpp"
#include "cpu_kernels/linear/w4a16_tile.hpp"

namespace inlay::cpu {

// One row: the codes of P panels (cuts.hpp), read once. What is asked for ahead goes to L2.
//
// OneRun: no segment is longer than what the sums hold before they are closed. Groups of 32 then take 0.91 of the time
// at AVX2, in L2 (Zen 3, 4 bits; with the order of a word's parts below).
//
// Segments of a known length, their words written out, are 215 instructions a group of 32 in place of 275, and showed
// no gain: in L2 one thread takes 0.85 of the time for Q4_0 and 1.05 to 1.11 for Q4_1; two threads take 0.96 to 1.12,
// in the mean 1.03 (Q4_0, Q4_1 and Q4_K, 2.4 to 33 MB of codes, 9 turns); qwen2.5-0.5b of Q4_0 decodes 1.07 times as
// fast by the median and 1.01 by the upper quartile of 24 runs, where a program and its copy differ by a tenth (Zen 3).
template <class Level, simd::Codes Kind, int P, bool Offsets, bool OneRun>
void w4_int8_row(const W4Weight& w, const W4Bytes& x, index first, float* total) {
  using F = simd::Floats<Level>;
  using Sums = simd::CodeSums<Level, Kind>;
  constexpr int per_word = simd::codes_of_word<Kind>, count = Panels<Level, P>::count;
  constexpr bool in_runs = w4_in_runs<Level, Kind>;
  constexpr index step_bytes = w4_step_bytes(simd::bits_of<Kind>);
  constexpr index distance = P == 1                                        ? w4_prefetch_of_one
                             : F::size == 8 && simd::upper_bits<Kind> == 0 ? w4_prefetch / 2
                                                                           : w4_prefetch;  // cuts.hpp
  const Panels<Level, P> panels(w, first);
  const simd::CodeTable<Level, Kind> table(w.named);
  const std::int8_t* bytes = x.bytes;
  index segment = 0, at = 0;         // at: of the step in each panel
  simd::Register<Level> all[count];  // bare: GCC 12 keeps an array of Floats in memory as well
  simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { all[v] = F().v; });
  for (index begin = 0; begin < w.slots; begin += w4_block)
    for_each_segment(begin, w.block_end(begin), w.group, [&](index s, index stop, index g) INLAY_INLINE_LAMBDA {
      Sums dots[count];
      const std::int32_t start = Offsets ? 0 : x.start[segment];
      simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { dots[v] = Sums(start); });
      const auto multiply = [&]() INLAY_INLINE_LAMBDA {
        const index ahead = at + panels.further(distance, at, w.steps * step_bytes);
        simd::StepWords<Level, Kind> words[count];
        panels.template load_step<2, Kind>(at, ahead, words);
        const auto row = simd::RowInputs<Level, Kind, 1>::load(bytes);
        const auto add = [&](auto v, auto h, const auto& inputs) INLAY_INLINE_LAMBDA {
          dots[v].template add<h>(simd::code_part<Kind, h>(words[v], table), inputs);
        };
        if constexpr (in_runs) {  // both parts of a word behind one load of it
          simd::CodeInputs<Level> inputs[Sums::parts];
          simd::unroll<Sums::parts>([&](auto h) INLAY_INLINE_LAMBDA { inputs[h] = row.template row<0, h>(); });
          simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA {
            simd::unroll<Sums::parts>([&](auto h) INLAY_INLINE_LAMBDA { add(v, h, inputs[h]); });
          });
        } else {
          simd::unroll<Sums::parts>([&](auto h) INLAY_INLINE_LAMBDA {
            const auto inputs = row.template row<0, h>();
            simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { add(v, h, inputs); });
          });
        }
        s += per_word, at += step_bytes, bytes += Sums::word_bytes;
      };
      // The first words of a run by themselves, and the first run of a segment: they are not added to zeros.
      const auto run = [&](index end) INLAY_INLINE_LAMBDA {
        simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { dots[v].open(); });
        if constexpr (in_runs) multiply();
        if constexpr (Sums::most > per_word)
          while (s < end) multiply();
        simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { dots[v].close(); });
      };
      if constexpr (!in_runs || OneRun) {
        run(stop);
      } else {
        run(min(s + Sums::most, stop));
        while (s < stop) run(min(s + Sums::most, stop));
      }
      const F step(x.step[segment]), sum(Offsets ? x.sum[segment] : 0);
      const auto add = [&](auto v, F scale, F offset) INLAY_INLINE_LAMBDA {
        all[v] = w4_add<Offsets>(F(all[v]), dots[v].to_floats(start), scale, offset, sum, step).v;
      };
      if constexpr (Offsets) {
        panels.for_each_scale(w, g, add);
      } else if constexpr (F::size == 4) {  // GCC 12 stores totals that each type of scales adds to
        simd::Register<Level> scales[count];
        panels.for_each_plain_scale(w, g, [&](auto v, F scale) INLAY_INLINE_LAMBDA { scales[v] = scale.v; });
        simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { add(v, F(scales[v]), F()); });
      } else {
        panels.for_each_plain_scale(w, g, [&](auto v, F scale) INLAY_INLINE_LAMBDA { add(v, scale, F()); });
      }
      ++segment;
    });
  simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { F(all[v]).store(total + v * F::size); });
}

// Panels from `first` on, and the tiles of rows that pass by them. `more`: the job behind it is likely this worker's
// next.
struct W4Job {
  index first, begin, end;
  bool more;
};

// The rows of a job over its registers `from` .. `to`, whose words begin at words[v].
template <class Level, simd::Codes Kind, bool Offsets, index Segment, bool Spread, bool NextJob>
void w4_int8_rows(const LinearW4a16<Host>& op, const W4Weight& w, const W4Bytes& x, const W4Job& job, int from, int to,
                  const std::uint8_t* const* words, const W4Scales& scales) {
  constexpr index size = simd::Floats<Level>::size;
  W4Ahead ahead = {};
  if constexpr (NextJob)
    ahead = {words[0] + w4_int8_job_panels * w.steps * w.step_bytes, groups_of(w.step_bytes, job.end - job.begin)};
  for (index t = job.begin; t < job.end; ++t) {
    const TileOfRows tile = w4_int8_tiles<Level, Kind>.tile(t, x.rows);
    with_tile_rows<w4_int8_tiles<Level, Kind>>(tile.rows, [&]<int R>(std::integral_constant<int, R>) {
      constexpr int columns = simd::CodeSums<Level, Kind>::columns(R);
      alignas(64) float total[R * columns * size];
      for (int v = from; v < to; v += columns) {
        if constexpr (simd::has_pair_products<Level> && Kind != simd::Codes::eight && R % 2 == 0)
          w4_int8_pairs<Level, Kind, R, columns, Offsets>(x, tile, words[v], w.named, scales, v * size, total);
        else
          w4_int8_tile<Level, Kind, R, columns, Offsets, Segment, Spread, NextJob>(x, tile, words + v, w, scales,
                                                                                   v * size, total, ahead);
        w4_store<Level>(op, tile.first, R, job.first * w4_panel + v * size, columns * size, total, columns * size,
                        nullptr);
      }
    });
  }
}

// Panels that are spread at once: they are read from L2 by each tile of rows.
template <class Level, simd::Codes Kind> index w4_spread_panels(const W4Weight& w) {
  const index fit = w4_spread_bytes_at_once / SpreadCodes<Level, Kind>::panel_bytes(w.steps);
  return fit < 1 ? 1 : min(fit, w4_int8_job_panels);
}
// What a worker has for them.
template <class Level, simd::Codes Kind> index w4_spread_bytes(const W4Weight& w, index rows) {
  if constexpr (w4_spreads<Level, Kind>)
    if (rows >= w4_spread_rows && w4_segments_are_usual<Level, Kind>(w))
      return w4_spread_panels<Level, Kind>(w) * SpreadCodes<Level, Kind>::panel_bytes(w.steps);
  return 0;
}

// The rows of a job over its panels. `spread`: room for its codes, or null. (PREFETCHW of a tile's outputs
// before it is summed: whole prefill of qwen2.5-0.5b 0.97 of the speed, Zen 4.)
template <class Level, simd::Codes Kind, bool Offsets, index Segment>
void w4_int8_job(const LinearW4a16<Host>& op, const W4Weight& w, const W4Bytes& x, const W4Job& job, W4Scales scales,
                 [[maybe_unused]] std::uint8_t* spread) {
  using JobPanels = Panels<Level, w4_int8_job_panels>;
  const bool next_job = job.more && w4_asks_for_next_job<Level>(w, job.end - job.begin);
  scales.read<Level>(w, job.first, next_job);
  const JobPanels panels(w, job.first);
  const int count = static_cast<int>(min(w.panels - job.first, w4_int8_job_panels)) * JobPanels::in_panel;
  const std::uint8_t* words[JobPanels::count];  // also of registers beyond the last one, which a tile may read with it
  for (int v = 0; v < JobPanels::count; ++v) words[v] = panels.words(v, 0);
  if constexpr (Segment != 0 && w4_spreads<Level, Kind>) {
    constexpr RowTiles cut = w4_int8_tiles<Level, Kind>;
    if (spread && cut.begin(job.end, x.rows) - cut.begin(job.begin, x.rows) >= w4_spread_rows) {
      const int at_once = static_cast<int>(w4_spread_panels<Level, Kind>(w)) * JobPanels::in_panel;
      for (int from = 0; from < count; from += at_once) {
        const int to = from + at_once < count ? from + at_once : count;
        SpreadCodes<Level, Kind>::spread(w, words, from, to, spread);
        w4_int8_rows<Level, Kind, Offsets, Segment, true, false>(op, w, x, job, from, to, words, scales);
      }
      return;
    }
  }
  auto* rows = w4_int8_rows<Level, Kind, Offsets, Segment, false, false>;
  if constexpr (simd::Floats<Level>::size == 16)
    if (next_job) rows = w4_int8_rows<Level, Kind, Offsets, Segment, false, true>;
  rows(op, w, x, job, 0, count, words, scales);
}

// The workspace of a call: x as bytes, and what each worker has for its jobs of many rows. What is not there is null.
template <class Level, simd::Codes Kind> struct W4Int8Scratch {
  W4Bytes x;
  W4Scales scales;                 // of the first worker; the others' follow
  std::uint8_t* spread = nullptr;  // likewise, spread_bytes each
  index spread_bytes;

  W4Int8Scratch(const W4Weight& w, index rows)
      : x{.rows = rows, .row_bytes = w.steps * simd::CodeSums<Level, Kind>::word_bytes, .segments = w.segments()},
        spread_bytes(w4_spread_bytes<Level, Kind>(w, rows)) {}
  template <class Take> void cut(const W4Weight& w, index workers, Take&& take) {
    const index of_rows = x.rows * x.segments, of_jobs = x.rows > 1 ? workers * x.segments * W4Scales::width : 0;
    take(x.bytes, x.rows * x.row_bytes);
    take(x.step, of_rows);
    take(x.start, w.symmetric() ? of_rows : 0);
    take(x.sum, w.symmetric() ? 0 : of_rows);
    take(x.segment_words, x.rows > 1 ? x.segments : 0);
    take(scales.scale, of_jobs);
    take(scales.offset, w.symmetric() ? 0 : of_jobs);
    take(spread, workers * spread_bytes);
  }
  W4Scales scales_of(index worker) const {
    const index before = worker * x.segments * W4Scales::width;
    return {.scale = scales.scale + before, .offset = scales.offset ? scales.offset + before : nullptr};
  }
  std::uint8_t* spread_of(index worker) const { return spread ? spread + worker * spread_bytes : nullptr; }
};

// Jobs of panels, and of rows too where there are few panels for the threads.
template <class Level, simd::Codes Kind, bool Offsets>
void w4_int8_many_rows(const Parallel& parallel, const LinearW4a16<Host>& op, const W4Weight& w,
                       const W4Int8Scratch<Level, Kind>& scratch) {
  const W4Bytes& x = scratch.x;
  const index jobs = groups_of(w.panels, w4_int8_job_panels), tiles = w4_int8_tiles<Level, Kind>.count(x.rows);
  const index wanted = groups_of(w4_int8_jobs_per_thread * parallel.width, jobs);
  const index chunks = min(wanted, tiles);
  const Work work = w.work(x.rows);
  auto* multiply = w4_int8_job<Level, Kind, Offsets, 0>;
  if (w4_segments_are_usual<Level, Kind>(w))
    multiply = w4_int8_job<Level, Kind, Offsets, w4_usual_segment<Level, Kind>>;
  JobShares shares(jobs * chunks, parallel, work);
  parallel(parallel.width, work, [&](index worker) {
    shares.each(worker, [&](index at, bool more) {
      const index chunk = at / jobs;
      const W4Job job{at % jobs * w4_int8_job_panels, tiles * chunk / chunks, tiles * (chunk + 1) / chunks, more};
      multiply(op, w, x, job, scratch.scales_of(worker), scratch.spread_of(worker));
    });
  });
}

template <class Level, simd::Codes Kind, bool Offsets>
void w4_int8_one_row(const Parallel& parallel, const LinearW4a16<Host>& op, const W4Weight& w, const W4Bytes& x) {
  // A narrow layer is cut finer, for the threads. (By three panels where two threads then end together, six jobs each
  // of 36 panels and not five and four: SmolLM2-135M 262 tok/s with and 264 without, 15 turns, Zen 4.)
  constexpr int wide = w4_int8_row_panels(simd::Floats<Level>::size, simd::bits_of<Kind>), narrow = wide < 4 ? wide : 4;
  constexpr bool in_runs = w4_in_runs<Level, Kind>;
  const auto run = [&]<int P>(std::integral_constant<int, P>) {
    auto* row = w4_int8_row<Level, Kind, P, Offsets, false>;
    if (in_runs && w.group <= simd::CodeSums<Level, Kind>::most) row = w4_int8_row<Level, Kind, P, Offsets, in_runs>;
    w4_each_run(parallel, groups_of(w.panels, P), w.work(1), [&](index begin, index end) {
      for (index job = begin; job < end; ++job) {
        float total[P * w4_panel];
        row(w, x, job * P, total);
        w4_store<Level>(op, 0, 1, job * P * w4_panel, P * w4_panel, total, 0, nullptr);
      }
    });
  };
  if (w.panels >= wide * parallel.width)
    run(std::integral_constant<int, wide>{});
  else
    run(std::integral_constant<int, narrow>{});
}

template <class Level, simd::Codes Kind>
std::size_t w4_int8_bytes(const Parallel& parallel, const LinearW4a16<Host>& op) {
  const W4Weight w(op);
  std::size_t bytes = 0;
  W4Int8Scratch<Level, Kind>(w, op.x.extents[0]).cut(w, parallel.width, [&]<class T>(T*&, index count) {
    bytes += WorkspaceCutter::padded<T>(count);
  });
  return bytes;
}

template <class Level, simd::Codes Kind>
void w4_int8(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  const W4Weight w(op);
  const index rows = op.x.extents[0];
  WorkspaceCutter cutter(workspace);
  W4Int8Scratch<Level, Kind> scratch(w, rows);
  scratch.cut(w, parallel.width, [&]<class T>(T*& array, index count) {
    if (count) array = cutter.take<T>(count);
  });
  const W4Bytes& x = scratch.x;
  parallel.ranges(rows, 1, Work{.bytes = 5.0 * static_cast<double>(rows * w.slots)}, [&](index begin, index end) {
    with_float(op.x.dtype, [&]<class T>(Type<T>) {
      for (index t = begin; t < end; ++t) w4_quantize_row<Level, Kind>(w, op.x.as<T>() + t * op.x.strides[0], x, t);
    });
  });
  const auto run = [&]<bool Offsets>(std::bool_constant<Offsets>) {
    if (rows == 1) return w4_int8_one_row<Level, Kind, Offsets>(parallel, op, w, x);
    x.measure_segments(w, simd::codes_of_word<Kind>);
    w4_int8_many_rows<Level, Kind, Offsets>(parallel, op, w, scratch);
  };
  if constexpr (simd::of_codebook<Kind>)
    run(std::false_type{});
  else
    w.symmetric() ? run(std::false_type{}) : run(std::true_type{});
}

}  // namespace inlay::cpu
