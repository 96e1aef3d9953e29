// Few rows meet the codes in registers (linear/w4a16_few_rows.hpp). Many: the codes of a block of a few panels become
// floats once, in a buffer that stays in L1, and every row of a chunk runs over it in register tiles:
//
//   x, packed by tiles of R rows       codes of a block, [128][registers]
//     tile 0 | s0: r0 .. rR | s1 ..      s0 | n0 n1 .. n31 |
//     tile 1 | s0: r0 .. rR | s1 ..      s1 | n0 n1 .. n31 |
//
// The chunk's part of x (128 slots) and its totals stay in L2 over the panels of a job.
#pragma once

#include "cpu_kernels/linear/row_tiles.hpp"
#include "cpu_kernels/linear/w4a16_few_rows.hpp"
#include "cpu_kernels/linear/w4a16_form.hpp"
#include "cpu_kernels/linear/w4a16_int8.hpp"
#include "cpu_kernels/linear/w4a16_panels.hpp"
#include "cpu_kernels/simd/fast_subnormals.hpp"
#include "cpu_kernels/simd/opaque.hpp"
#include "cpu_kernels/simd/register_tile.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/without_dots.hpp"

namespace inlay::cpu {

template <class Level> struct W4Tile {
  using F = simd::Floats<Level>;
  static constexpr int rows = w4_tile_rows(F::size);
  static constexpr int panels = F::size == 16 ? 2 : 1;
  static constexpr int columns = Panels<Level, panels>::count;  // registers
  static constexpr index width = panels * w4_panel;             // channels
};

inline constexpr index w4_job_width = w4_job_panels * w4_panel;  // from a row's totals to the next one's
inline constexpr index w4_block_segments = w4_block / w4_group_multiple + 1;

// Codes that become floats once for many rows: as subnormal numbers they are no faster (Zen 3, four widths of codes, 8
// and 24 rows: 0.95 to 1.04 of the speed, 1.00 in the middle).
inline constexpr simd::CodeForm w4_unpacked = simd::CodeForm::converted;

// A block of W4Tile::panels panels as floats: codes in place, and scale and offset of each segment.
template <class Level> struct W4Block {
  static constexpr index width = W4Tile<Level>::width;
  float codes[w4_block * width];
  float scale[w4_block_segments * width], offset[w4_block_segments * width];
};

template <class Level, simd::Codes Kind>
void w4_unpack(const W4Weight& w, index first, index begin, index end, W4Block<Level>& block) {
  using F = simd::Floats<Level>;
  using Tile = W4Tile<Level>;
  const Panels<Level, Tile::panels> panels(w, first, w4_prefetch_groups);
  for_each_code<Level, w4_unpacked, Kind>(w, panels, begin, end, [&](int v, F codes, index s) INLAY_INLINE_LAMBDA {
    codes.store(block.codes + (s - begin) * Tile::width + v * F::size);
  });
  float *scales = block.scale, *offsets = block.offset;
  for_each_segment(begin, end, w.group, [&](index, index, index g) INLAY_INLINE_LAMBDA {
    panels.copy_scales(w, g, scales, offsets);
    scales += Tile::width;
    offsets += Tile::width;
  });
}

// total[r][..] += the block's part for R rows; x [slots of the block][tile rows], sums [its
// segments][tile rows].
template <class Level, int R>
void w4_tile(const W4Block<Level>& block, index begin, index end, index group, const float* x, const float* sums,
             float* total) {
  using F = simd::Floats<Level>;
  using Tile = W4Tile<Level>;
  const float *codes = block.codes, *scales = block.scale, *offsets = block.offset;
  for_each_segment(begin, end, group, [&](index s, index stop, index) INLAY_INLINE_LAMBDA {
    simd::RegisterTile<Level, R, Tile::columns> tile;
    for (; s < stop; ++s, codes += Tile::width, x += Tile::rows) {
      simd::Register<Level> code[Tile::columns];
      simd::unroll<Tile::columns>([&](auto c) INLAY_INLINE_LAMBDA { code[c] = F::load(codes + c * F::size).v; });
      tile.add([&](int r) INLAY_INLINE_LAMBDA { return F(x[r]); }, code);
    }
    // Scales and offsets once, not for each row behind the store of a total: loads are what takes longest behind a
    // group (Zen 5, 512 rows, groups of 32: 0.83 of fma, now 0.85). Chains of a symmetric weight that begin at -middle
    // times the sum of x, and save the fma of the offset, were no faster.
    F scale[Tile::columns], offset[Tile::columns];
    simd::unroll<Tile::columns>([&](auto c) INLAY_INLINE_LAMBDA {
      scale[c] = simd::opaque<Level>(F::load(scales + c * F::size));
      offset[c] = simd::opaque<Level>(F::load(offsets + c * F::size));
    });
    float* const totals = simd::opaque(total);  // or they are kept in other memory meanwhile, and stored to both
    simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
      const F of_x = simd::opaque<Level>(F(sums[r]));
      simd::unroll<Tile::columns>([&](auto c) INLAY_INLINE_LAMBDA {
        float* const to = totals + r * w4_job_width + c * F::size;
        fma(offset[c], of_x, fma(F(tile.sum[r][c]), scale[c], F::load(to))).store(to);
      });
    });
    scales += Tile::width;
    offsets += Tile::width;
    sums += Tile::rows;
  });
}

// The slots begin .. end of a block, in groups: what is unpacked at a time.
struct W4Slots {
  index begin, end, group;
};

// The smallest built tile that has `rows` rows: what lies beyond them is padding.
template <class Level>
INLAY_INLINE void w4_rows(index rows, const W4Block<Level>& block, W4Slots slots, const float* x, const float* sums,
                          float* total) {
  with_tile_of_at_least<W4Tile<Level>::rows>(rows, [&]<int R>(std::integral_constant<int, R>) INLAY_INLINE_LAMBDA {
    w4_tile<Level, R>(block, slots.begin, slots.end, slots.group, x, sums, total);
  });
}

// `rows` rows of packed x over `panels` panels from `first` on, into totals [rows][8 panels].
template <class Level, simd::Codes Kind>
void w4_job(const W4Weight& w, index first, index panels, const float* x, const float* sums, index rows,
            W4Block<Level>& block, float* totals) {
  using Tile = W4Tile<Level>;
  const index segments = w.segments();
  const index padded = groups_of(rows, Tile::rows) * Tile::rows;
  for (index i = 0; i < padded * w4_job_width; ++i) totals[i] = 0;
  index segment = 0;  // the first of the block
  for (index begin = 0; begin < w.slots; begin += w4_block) {
    const index end = w.block_end(begin);
    for (index panel = 0; panel < panels; panel += Tile::panels) {
      w4_unpack<Level, Kind>(w, first + panel, begin, end, block);
      for (index row = 0; row < rows; row += Tile::rows)
        w4_rows<Level>(rows - row, block, {begin, end, w.group}, x + row * w.slots + begin * Tile::rows,
                       sums + row * segments + segment * Tile::rows, totals + row * w4_job_width + panel * w4_panel);
    }
    for_each_segment(begin, end, w.group, [&](index, index, index) { ++segment; });
  }
}

template <class Level, simd::Codes Kind>
void w4_many_rows(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  using Tile = W4Tile<Level>;
  const W4Weight w(op);
  const index rows = op.x.extents[0], tiles = groups_of(rows, Tile::rows);
  const index segments = w.segments();
  WorkspaceCutter cutter(workspace);
  float* x = cutter.take<float>(tiles * Tile::rows * w.slots);
  float* sums = cutter.take<float>(tiles * Tile::rows * segments);
  float* back = cutter.take<float>(tiles * Tile::rows);
  constexpr auto powers = W4Powers::of<w4_unpacked, Kind>();
  parallel.ranges(tiles, 1, Work{.bytes = 8.0 * static_cast<double>(rows * w.slots)}, [&](index begin, index end) {
    for (index t = begin; t < end; ++t)
      w4_prepare_tile<Level>(op, w, powers, t, Tile::rows, x + t * Tile::rows * w.slots,
                             sums + t * Tile::rows * segments, back + t * Tile::rows);
  });
  // Few rows: a job is one pass over neighbouring panels. Many: x is reused over eight panels.
  const index job_panels = tiles == 1 ? Tile::panels : w4_job_panels;
  const index jobs = groups_of(w.panels, job_panels);
  const index chunks = groups_of(tiles * Tile::rows, w4_chunk_rows);
  W4Block<Level>* blocks = cutter.take<W4Block<Level>>(parallel.width);
  float* totals = cutter.take<float>(parallel.width * w4_chunk_rows * w4_job_width);
  w4_each_job(parallel, jobs * chunks, w.work(rows), [&](index worker, index job) {
    const fp::KeepSubnormals mode;
    float* const mine = totals + worker * w4_chunk_rows * w4_job_width;
    const index chunk = job / jobs, first = job % jobs * job_panels;
    const index begin = tiles * chunk / chunks * Tile::rows, stop = tiles * (chunk + 1) / chunks * Tile::rows;
    const index end = min(stop, rows);
    const index panels = min(w.panels - first, job_panels);
    w4_job<Level, Kind>(w, first, panels, x + begin * w.slots, sums + begin * segments, end - begin, blocks[worker],
                        mine);
    w4_store<Level>(op, begin, end - begin, first * w4_panel, panels * w4_panel, mine, w4_job_width, back + begin);
  });
}

template <class Level> std::size_t linear_w4a16_bytes(const Parallel& parallel, const LinearW4a16<Host>& op) {
  using Tile = W4Tile<Level>;
  const index rows = op.x.extents[0], segments = W4Weight(op).segments();
  if (op.compute == W4Compute::int8_activations)
    return with_int8_codes<Level>(
        op, [&]<simd::Codes Kind>(CodesAre<Kind>) { return w4_int8_bytes<Level, Kind>(parallel, op); });
  const bool few = rows <= w4_few_rows_most(simd::Floats<Level>::size);
  const index padded = few ? w4_padded_few(rows) : groups_of(rows, Tile::rows) * Tile::rows;
  const std::size_t prepared = WorkspaceCutter::padded<float>(padded * op.codes.extents[1] * w4_step_slots(op.bits)) +
                               WorkspaceCutter::padded<float>(padded * segments);
  if (few) return prepared;
  return prepared + WorkspaceCutter::padded<float>(padded) + WorkspaceCutter::padded<W4Block<Level>>(parallel.width) +
         WorkspaceCutter::padded<float>(parallel.width * w4_chunk_rows * w4_job_width);
}

template <class Level, simd::CodeForm Form, simd::Codes Kind>
void w4_exact(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  constexpr int most = w4_few_rows_most(simd::Floats<Level>::size);
  const index rows = op.x.extents[0];
  if (rows > most) return w4_many_rows<Level, Kind>(parallel, op, workspace);
  with_tile_rows<RowTiles{.most = most, .halves = true}>(
      w4_padded_few(rows),
      [&]<int R>(std::integral_constant<int, R>) { w4_few_rows<Level, Form, Kind, R>(parallel, op, workspace); });
}

// exact_float as a whole. The library compiles it in an object of its own (linear/w4a16_exact.cpp).
template <class Level>
void w4_exact_float(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace, simd::CodeForm form) {
  const auto run = [&]<simd::CodeForm Form>(std::integral_constant<simd::CodeForm, Form>) {
    with_codes(op, [&]<simd::Codes Kind>(CodesAre<Kind>) { w4_exact<Level, Form, Kind>(parallel, op, workspace); });
  };
  if (form == simd::CodeForm::subnormal)
    run(std::integral_constant<simd::CodeForm, simd::CodeForm::subnormal>{});
  else
    run(std::integral_constant<simd::CodeForm, simd::CodeForm::converted>{});
}

// `form` is that of exact_float.
template <class Level>
Status linear_w4a16(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace, simd::CodeForm form) {
  using Exact = WithoutDots<Level>;
  if (op.y.empty()) return {};
  if (op.compute == W4Compute::int8_activations)
    with_int8_codes<Level>(op,
                           [&]<simd::Codes Kind>(CodesAre<Kind>) { w4_int8<Level, Kind>(parallel, op, workspace); });
  else if constexpr (!std::is_same_v<Level, Exact>)
    return compute_as<Exact>(form, parallel, op, workspace);
  else
    w4_exact_float<Level>(parallel, op, workspace, form);
  return {};
}

template <> struct Kernels<LinearW4a16<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
    using simd::CodeForm;
    const bool fast = simd::has_fast_subnormals<Level>();
    return linear_w4a16<Level>(parallel, op, workspace, fast ? CodeForm::subnormal : CodeForm::converted);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel& parallel, const LinearW4a16<Host>& op) {
    return linear_w4a16_bytes<Level>(parallel, op);
  }
};

}  // namespace inlay::cpu
