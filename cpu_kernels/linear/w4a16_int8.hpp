// int8_activations: the dot product of a segment's codes with its x as bytes is exact in int32.
//
//   y[t,n] = sum over segments  step_x * (scale * sum(q * xq) + offset * sum(xq))
//   y[t,n] = sum over segments  step_x * (scale * (sum(q * xq) - middle * sum(xq)))      symmetric
//
// A row has the same chain of roundings in every tile: its bits do not depend on the other rows.
//
// Many rows: a job is four panels. Its scales become floats once, and all rows pass by its codes, which stay in L2.
// What a tile does for each register of sums and group of 32:
//
//   VNNI            8 VPDPBUSD, 1 conversion, 1 mul, 1 fma (2 with offsets); its total is loaded and stored
//   AVX2            8 VPMADDUBSW, 7 VPADDW, VPMADDWD, VPADDD, and the same three: 20 (20 with offsets)
//   AVX2, 8 bits    16 VPMADDWD, 16 VPADDD, and the same three: 35; named codes too
//
// and for two registers of words, 8 slots: 2 loads, 6 operations that spread the codes (8 of 8 bits at AVX2), and two
// broadcasts a row. On Zen 5 dot products, mul and fma share two pipes, and nothing else fills one: 8 / 10 of the peak
// is the limit, 8 / 11 with offsets, 32 / 34 and 32 / 35 with groups of 128.
//
// Zen 4 begins four operations of 256 bits a cycle, two of them VPMADDUBSW: 16 / 23 of two VPMADDUBSW a cycle is the
// limit of a tile of four rows, 16 / 21 with groups of 128, 16 / 39 of 8 bits. It does not keep that up: of VPMADDUBSW
// and a VPADDW that waits for it, it begins 3.3 a cycle in whatever order, which is 0.82 of two VPMADDUBSW, and this
// tile in assembly, all of it in L1 and its codes spread before, holds 0.60. Spreading the codes of a job once, for all
// its rows, gave 2 to 5% with 64 rows, was slower with 4 to 16, and took a layout of its own.
#pragma once

#include "cpu_kernels/linear/w4a16_pairs.hpp"
#include "cpu_kernels/simd/opaque.hpp"

namespace inlay::cpu {

// Segments are summed in runs of what the sums hold before they are closed.
template <class Level, simd::Codes Kind>
inline constexpr bool w4_in_runs = simd::CodeSums<Level, Kind>::most < w4_block;
// Segments of so many slots have tiles of their own: GGUF's. At AVX2, where their gain was measured.
template <class Level, simd::Codes Kind>
inline constexpr index w4_usual_segment = simd::Floats<Level>::size != 8 ? 0
                                          : Kind == simd::Codes::six     ? 16
                                                                         : 32;

// One row: the codes of P panels, read once. What is asked for ahead goes to L2. One row's speed as a multiple of
// exact_float's, by turns (Zen 4, two threads, groups of 32, medians of five to seven; "into L1" had four panels):
//
//                             4096 x 14336   4096 x 4096   896 x 4864    4864 x 896
//   4 bits, 4 panels              1.01           1.14         1.03          1.11
//     into L1                     0.92           0.78         0.83          0.95
//   8 bits, 8 panels              1.02           1.00         1.01          1.02
//     4 panels                    0.90           0.93         0.98          0.99
//     into L1                     0.89           0.62         0.80          0.76
//
// Twice as far ahead changes less than the memory moves from turn to turn. Half as far is 5 to 18% faster for 4 to 6
// bits of 14336 x 4096 and its transpose where memory is fast, and 15% slower for 896 x 4864: qwen2.5-0.5b decodes 92
// tokens a second in place of 108, llama3.2-1b 41.7 and 41.2. Of 4 bits two panels are faster still: cuts.hpp.
//
// OneRun: no segment is longer than what the sums hold before they are closed. Groups of 32 then take 0.91 of the time
// at AVX2, in L2 (Zen 3, 4 bits; with the order of a word's parts below).
template <class Level, simd::Codes Kind, int P, bool Offsets, bool OneRun>
void w4_int8_row(const W4Weight& w, const W4Bytes& x, index first, float* total) {
  using F = simd::Floats<Level>;
  using Sums = simd::CodeSums<Level, Kind>;
  constexpr int per_word = simd::codes_of_word<Kind>, count = Panels<Level, P>::count;
  constexpr bool in_runs = w4_in_runs<Level, Kind>;
  constexpr index step_bytes = w4_step_bytes(simd::bits_of<Kind>);
  constexpr index distance = F::size == 8 && simd::upper_bits<Kind> == 0 ? w4_prefetch / 2 : w4_prefetch;  // cuts.hpp
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

// total[r][c] of a tile of R rows and C registers; the words of register c begin at words[c].
// Out of line: its totals have no registers, and must not get two places in memory.
//
// Segment: slots of every segment, or 0. Where it is known there is no branch from its first word to its total, and GCC
// 12 keeps all sums in registers (of the same loop in a lambda, or bounded by a min, it does not, 1.2 to 1.5 of the time).
// The time of such a tile as a part of the other's, in L1, medians of 41 by turns (Zen 3, 4864 slots):
//
//           4 bits   offsets   5 bits   6 bits, of 16   8 bits   named
//   4 rows   0.85     0.87      0.85        0.87         0.96     0.93
//   3        0.93
//   2        0.90
//
// 4 rows of 4 bits: 62 cycles a group of 32, whose 184 operations would take 56 at 3.3 a cycle. (Runs of groups of 128,
// unrolled so: 0.87 to 1.07, by where the data lie.)
template <class Level, simd::Codes Kind, int R, int C, bool Offsets, index Segment>
__attribute__((noinline)) void w4_int8_tile(const W4Bytes& x, TileOfRows tile, const std::uint8_t* const* words,
                                            const simd::NamedBytes& named, const W4Scales& scales, index channel,
                                            float* total) {
  using F = simd::Floats<Level>;
  using Sums = simd::CodeSums<Level, Kind>;
  constexpr int in_panel = Panels<Level, 1>::count;
  const index place = C % in_panel == 0 ? 0 : channel / F::size % in_panel;  // of the first register in its panel
  const simd::CodeTable<Level, Kind> table(named);
  constexpr index most = Sums::most / simd::codes_of_word<Kind>;
  const std::uint8_t* from[C];
  simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { from[c] = words[c]; });
  // Not members: those would be loaded again behind every store of a total.
  const float *const step_of = x.step, *const sum_of = x.sum;
  const std::int32_t *const start_of = x.start, *const words_of = x.segment_words;
  const std::int8_t* bytes = x.words(tile);
  index at = x.of_segments(tile);  // of the segment's first row; `channel` goes along
  for (int i = 0; i < R * C; ++i) F().store(total + i * F::size);
  for (index segment = 0; segment < x.segments; ++segment) {
    Sums dots[R * C];
    const auto each = [&](auto&& run) INLAY_INLINE_LAMBDA {  // unroll<R * C> is a loop where it is long
      simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
        simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { run(dots[r * C + c]); });
      });
    };
    simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
      const std::int32_t start = Offsets ? 0 : start_of[at + r];
      simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { dots[r * C + c] = Sums(start); });
    });
    const auto multiply = [&]() INLAY_INLINE_LAMBDA {  // a word of each channel
      simd::StepWords<Level, Kind> word[C];
      simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
        if (c % in_panel == 0) __builtin_prefetch(from[c] + w4_prefetch, 0, 2);
        word[c] = simd::load_words<Level, Kind>(from[c], (place + c) % in_panel);
        from[c] += w4_step_bytes(simd::bits_of<Kind>);
      });
      const auto rows = simd::RowInputs<Level, Kind, R>::load(bytes);
      simd::unroll<Sums::parts>([&](auto h) INLAY_INLINE_LAMBDA {
        simd::CodePart<Level> codes[C];
        simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { codes[c] = simd::code_part<Kind, h>(word[c], table); });
        simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
          const auto inputs = rows.template row<r, h>();
          simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { dots[r * C + c].template add<h>(codes[c], inputs); });
        });
      });
      bytes += R * Sums::word_bytes;
    };
    if constexpr (Segment != 0) {
      constexpr int words = Segment / simd::codes_of_word<Kind>, of_run = words < most ? words : most;
      INLAY_UNROLL
      for (int run = 0; run < words / of_run; ++run) {
        each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.open(); });
        INLAY_UNROLL
        for (int word = 0; word < of_run; ++word) multiply();
        each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.close(); });
      }
    } else {
      // Runs of what the sums hold before they are closed. The first of them and the first words of each by themselves:
      // they are not added to zeros.
      index left = words_of[segment];
      const auto end_of_run = [&]() INLAY_INLINE_LAMBDA {
        return bytes + (!w4_in_runs<Level, Kind> || left < most ? left : most) * R * Sums::word_bytes;
      };
      const std::int8_t* end = end_of_run();
      each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.open(); });
      multiply();
      while (bytes < end) multiply();
      each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.close(); });
      if constexpr (w4_in_runs<Level, Kind>)
        while ((left -= most) > 0) {
          end = end_of_run();
          each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.open(); });
          multiply();
          while (bytes < end) multiply();
          each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.close(); });
        }
    }
    float* const totals = simd::opaque(total);  // or they are kept in other memory meanwhile, and stored to both
    // What rows or columns share is loaded once: at two loads a cycle (Zen 5) those of the words take 40 of the 64
    // cycles of a group of 32 already.
    F of_c[C], offset_of_c[C];
    simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
      of_c[c] = simd::opaque<Level>(F::load(scales.scale + channel + c * F::size));
      if constexpr (Offsets) offset_of_c[c] = simd::opaque<Level>(F::load(scales.offset + channel + c * F::size));
    });
    simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
      const F step = simd::opaque<Level>(F(step_of[at + r])), sum = F(Offsets ? sum_of[at + r] : 0);
      const std::int32_t late = Offsets ? 0 : start_of[at + r];
      simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
        float* const to = totals + (r * C + c) * F::size;
        const F dot = dots[r * C + c].to_floats(late);
        w4_add<Offsets>(F::load(to), dot, of_c[c], offset_of_c[c], sum, step).store(to);
      });
    });
    at += R, channel += W4Scales::width;
  }
}

// The rows begin .. end over the panels of a job. (PREFETCHW of a tile's outputs before it is summed: whole prefill of
// qwen2.5-0.5b 0.97 of the speed, Zen 4.)
template <class Level, simd::Codes Kind, bool Offsets, index Segment>
void w4_int8_job(const LinearW4a16<Host>& op, const W4Weight& w, const W4Bytes& x, index first, index begin, index end,
                 W4Scales scales) {
  constexpr int in_panel = Panels<Level, 1>::count;
  constexpr index size = simd::Floats<Level>::size;
  scales.read<Level>(w, first);
  const Panels<Level, w4_int8_job_panels> panels(w, first);
  const index there = min(w.panels - first, w4_int8_job_panels);
  for (TileOfRows tile{begin, 0}; tile.first < end; tile.first += tile.rows) {
    tile.rows = w4_int8_tiles<Level>.next(end - tile.first);
    with_tile_rows<w4_int8_tiles<Level>>(tile.rows, [&]<int R>(std::integral_constant<int, R>) {
      constexpr int columns = simd::CodeSums<Level, Kind>::columns(R);
      alignas(64) float total[R * columns * size];
      for (int v = 0; v < there * in_panel; v += columns) {
        const std::uint8_t* words[columns];
        for (int c = 0; c < columns; ++c) words[c] = panels.words(v + c, 0);
        if constexpr (simd::has_pair_products<Level> && Kind != simd::Codes::eight && R % 2 == 0)
          w4_int8_pairs<Level, Kind, R, columns, Offsets>(x, tile, words[0], w.named, scales, v * size, total);
        else
          w4_int8_tile<Level, Kind, R, columns, Offsets, Segment>(x, tile, words, w.named, scales, v * size, total);
        w4_store<Level>(op, tile.first, R, first * w4_panel + v * size, columns * size, total, columns * size, nullptr);
      }
    });
  }
}

// Jobs of panels, and of rows too where there are few panels for the threads.
template <class Level, simd::Codes Kind, bool Offsets>
void w4_int8_many_rows(const Parallel& parallel, const LinearW4a16<Host>& op, const W4Weight& w, const W4Bytes& x,
                       float* scale, float* offset) {
  constexpr int full = w4_int8_tiles<Level>.full;
  const index jobs = groups_of(w.panels, w4_int8_job_panels), tiles = groups_of(x.rows, full);
  const index wanted = groups_of(w4_int8_jobs_per_thread * parallel.width, jobs);
  const index chunks = min(wanted, tiles);
  const Work work = w.work(x.rows);
  constexpr index usual = w4_usual_segment<Level, Kind>;
  auto* multiply = w4_int8_job<Level, Kind, Offsets, 0>;
  if (usual != 0 && w.group == usual && w.slots % usual == 0) multiply = w4_int8_job<Level, Kind, Offsets, usual>;
  // What the end of one job has prefetched is the beginning of the next. Rows of several tiles find most of a job in
  // L2, and gain more by threads that end together (two threads, 9728 x 896 of 4 bits, Zen 3: 2 rows 0.87 of the time
  // of single jobs, 4 rows 0.91, 8 rows 1.05).
  const index count = jobs * chunks, run = tiles == 1 ? count / parallel.pieces(count, work) : 1;
  w4_each_job(parallel, groups_of(count, run), work, [&](index worker, index at) {
    const index of_worker = worker * x.segments;
    const W4Scales scales{.scale = scale + of_worker * W4Scales::width,
                          .offset = Offsets ? offset + of_worker * W4Scales::width : nullptr};
    for (index job = at * run; job < min((at + 1) * run, count); ++job) {
      const index chunk = job / jobs, first = job % jobs * w4_int8_job_panels;
      const index begin = tiles * chunk / chunks * full, stop = tiles * (chunk + 1) / chunks * full;
      multiply(op, w, x, first, begin, min(stop, x.rows), scales);
    }
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
  const index rows = op.x.extents[0], segments = w.segments();
  const index in_jobs = rows > 1 ? parallel.width * segments : 0;
  return WorkspaceCutter::padded<std::int8_t>(rows * w.steps * simd::CodeSums<Level, Kind>::word_bytes) +
         2 * WorkspaceCutter::padded<float>(rows * segments) +
         WorkspaceCutter::padded<std::int32_t>(rows > 1 ? segments : 0) +
         (w.symmetric() ? 1 : 2) * WorkspaceCutter::padded<float>(in_jobs * W4Scales::width);
}

template <class Level, simd::Codes Kind>
void w4_int8(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  const W4Weight w(op);
  const index rows = op.x.extents[0], segments = w.segments();
  WorkspaceCutter cutter(workspace);
  W4Bytes x{.rows = rows, .row_bytes = w.steps * simd::CodeSums<Level, Kind>::word_bytes, .segments = segments};
  x.bytes = cutter.take<std::int8_t>(rows * x.row_bytes);
  x.step = cutter.take<float>(rows * segments);
  if (w.symmetric())
    x.start = cutter.take<std::int32_t>(rows * segments);
  else
    x.sum = cutter.take<float>(rows * segments);
  parallel.ranges(rows, 1, Work{.bytes = 5.0 * static_cast<double>(rows * w.slots)}, [&](index begin, index end) {
    with_float(op.x.dtype, [&]<class T>(Type<T>) {
      for (index t = begin; t < end; ++t) w4_quantize_row<Level, Kind>(w, op.x.as<T>() + t * op.x.strides[0], x, t);
    });
  });
  const auto run = [&]<bool Offsets>(std::bool_constant<Offsets>) {
    if (rows == 1) return w4_int8_one_row<Level, Kind, Offsets>(parallel, op, w, x);
    x.segment_words = cutter.take<std::int32_t>(segments);
    x.measure_segments(w, simd::codes_of_word<Kind>);
    float* scale = cutter.take<float>(parallel.width * segments * W4Scales::width);
    float* offset = Offsets ? cutter.take<float>(parallel.width * segments * W4Scales::width) : nullptr;
    w4_int8_many_rows<Level, Kind, Offsets>(parallel, op, w, x, scale, offset);
  };
  if constexpr (Kind == simd::Codes::named)
    run(std::false_type{});
  else
    w.symmetric() ? run(std::false_type{}) : run(std::true_type{});
}

}  // namespace inlay::cpu
