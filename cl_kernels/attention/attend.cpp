#include "cl_kernels/attention/attend.hpp"

#include <algorithm>
#include <limits>

#include "cl_kernels/attention/attend_tunables.hpp"

namespace inlay::cl {

namespace {

// How a call is cut. Neither heads nor units leave a trace in the result.
struct TileConfig {
  int dim, rows, unit_rows, key_lanes, lanes;
  bool tiled;       // attention/prefill.cl
  bool transposed;  // attention/per_item_products.clh
};

TileConfig tile_config(const Runtime& runtime, const AttentionCall& a) {
  const int widest = static_cast<int>(std::max(a.k.dim, a.v.dim));
  TileConfig config{};
  config.lanes = runtime.lanes(attention_lanes);
  for (int dim : {64, 128, 256, 576})
    if (config.dim == 0 && widest <= dim && (dim > 64 || !runtime.per_item())) config.dim = dim;
  if (config.dim == 0) config.dim = static_cast<int>(groups_of(widest, 512) * 512);
  // Rows of a chunk have the bits of the whole: where that is asked for, one row goes as many do.
  const bool one = a.rows() == 1 && !a.ragged();
  if (runtime.per_item()) {
    config.transposed = a.chunk_invariant || a.rows() >= 16;
    config.rows = one && !config.transposed ? 1 : 4;
    config.unit_rows = std::max(4, config.dim <= 256 ? runtime.tuned(attention_unit_rows) : 8192 / config.dim / 4 * 4);
  } else {
    const bool flat = a.k.cache.extents[2] == 1 && a.v.cache.extents[2] == 1;
    config.tiled = flat && config.dim <= 576 && (a.chunk_invariant || a.rows() > 16);
    config.rows = config.unit_rows = (one && !a.chunk_invariant) || config.dim > 576 ? 1 : config.dim <= 256 ? 4 : 2;
    config.key_lanes = std::min(config.dim / 8, 32);
    // Tiles of 256 lanes take 44 KB; every device has 32.
    if (config.tiled && runtime.device().local_bytes < (48u << 10)) config.lanes = std::min(config.lanes, 128);
    if (config.tiled)
      config.rows = config.unit_rows = config.lanes / 16 * (config.dim <= 128 ? 4 : config.dim <= 256 ? 2 : 1);
  }
  return config;
}

// Units of the rows (query, head of the group) of a kv head.
struct Units {
  index rows, of_sequence, count;  // of_sequence: 0 where queries are ragged
};

Units units_of(const TileConfig& config, const AttentionCall& a, index batch) {
  if (a.ragged()) return {config.unit_rows, 0, a.rows() / config.unit_rows + batch};
  const index rows = std::clamp<index>(groups_of(a.rows(), config.rows) * config.rows, 1, config.unit_rows);
  const index of_sequence = groups_of(a.rows(), rows);
  return {rows, of_sequence, of_sequence * batch};
}

constexpr index max_groups = 65535;  // of the third dimension, on NVIDIA

// Parts that go side by side; with 1 a unit takes one after the other. Decoding's always do. Rows of chunks have the
// same bits in both ways, so that speed decides: side by side where units, of a kv head each, do not fill the device,
// and only so many rows that their partial results in f32 take a quarter of the memory of K and V in 16 bits.
index splits_of(const Runtime& runtime, const TileConfig& config, const AttentionCall& a) {
  if (!a.chunk_invariant || !(runtime.per_item() || config.tiled)) return a.parts;
  const bool few_units = units_of(config, a, a.batch()).count * a.kv_heads() < runtime.busy_groups();
  const bool few_rows = a.rows() <= a.split / 4;
  return few_units && few_rows && a.parts <= max_groups ? a.parts : 1;
}

// Rows in scratch: of each part or, in the per-group shape, the sums of those so far. In the per-item shape a work-item
// has them.
struct PartialRows {
  index sums, states;
};

PartialRows partial_rows(const Cl& cl, const AttentionCall& a) {
  if (a.parts == 1) return {};
  const index splits = splits_of(cl.runtime(), tile_config(cl.runtime(), a), a);
  const index rows = a.q.extents[0] * a.q.extents[1] * a.q_heads();
  if (splits > 1) return {splits * rows, splits * rows};
  return {cl.runtime().per_item() ? 0 : rows, 0};
}

// A view [outer, row, head, dim] whose extents of 1 are broadcast.
Strides broadcast_strides(const ConstView<4, Cl>& view) {
  const auto step = [&](int d) { return view.extents[d] == 1 ? index{0} : view.strides[d]; };
  return {step(0), step(1), step(2), step(3)};
}
// The same of a view [outer, head, row, dim].
Strides head_major_strides(const ConstView<4, Cl>& view) {
  const Strides s = broadcast_strides(view);
  return {s.outer, s.head, s.row, s.dim};
}
template <class V> Strides row_strides(const V& view) { return {view.strides[0], view.strides[1], view.strides[2], 0}; }
Long broadcast_stride(const ConstView<2, Cl>& view, int d) { return view.extents[d] == 1 ? 0 : view.strides[d]; }

// How many dims lie side by side, as kernels distinguish it.
int piece_class(const ConstPagedView<Cl>& cache) {
  const index piece = cache.extents[4];
  if (cache.extents[2] == 1) return 0;
  return piece == 16 || piece == 8 || piece == 4 ? static_cast<int>(piece) : 1;
}

// Of one of the views of a list, if they are one.
Cached cached_of(const AttentionKv<Cl>& kv, const ConstPagedView<Cl>& view, bool paged) {
  // Tokens that a scale tells apart have one each.
  const auto of_tokens = [&](const ConstView<4, Cl>& scale) {
    return scale.present() && (scale.extents[1] > 1 || (paged && scale.extents[0] > 1));
  };
  return {.outer = view.strides[0],
          .row = view.strides[3],
          .head = view.strides[1],
          .piece = view.extents[4],
          .step = view.strides[2],
          .scale = broadcast_strides(kv.scale),
          .offset = broadcast_strides(kv.offset),
          .dim = static_cast<Int>(kv.dim),
          .token_scales = of_tokens(kv.scale),
          .token_offset = of_tokens(kv.offset)};
}

// What kernels are told of sequences first .. first + batch.
Problem device_problem(const AttentionCall& a, const Runtime& runtime, const TileConfig& config, index first,
                       index batch) {
  const Units units = units_of(config, a, batch);
  const bool paged = a.block_table.present();
  Problem p{};
  p.k = cached_of(a.k, a.k.of(first), paged);
  p.v = cached_of(a.v, a.v.of(first), paged);
  p.q = row_strides(a.q);
  p.out = row_strides(a.out);
  p.lse = row_strides(a.lse);
  p.q_len = a.q.extents[1];
  p.tokens = a.q.extents[0] * a.q.extents[1];
  p.bias = head_major_strides(a.bias);
  p.mask = head_major_strides(a.mask);
  p.window_left = a.window_left;
  p.window_right = a.window_right;
  p.block_size = paged ? a.block_size() : 0;
  p.split = a.split;
  p.tiles = units.of_sequence;
  p.out_scale_head = broadcast_stride(a.out_scale, 0);
  p.out_scale_dim = broadcast_stride(a.out_scale, 1);
  p.out_offset_head = broadcast_stride(a.out_offset, 0);
  p.out_offset_dim = broadcast_stride(a.out_offset, 1);
  p.batch = static_cast<Int>(batch);
  p.first_sequence = static_cast<Int>(first);
  p.splits = static_cast<Int>(splits_of(runtime, config, a));
  p.q_heads = static_cast<Int>(a.q_heads());
  p.kv_heads = static_cast<Int>(a.kv_heads());
  p.group = static_cast<Int>(a.group());
  p.unit_rows = static_cast<Int>(units.rows);
  index heads = runtime.per_item() ? std::min<index>(p.kv_heads, config.unit_rows / units.rows) : 1;
  while (heads > 1 && units.count * p.splits * groups_of(p.kv_heads, heads) < runtime.busy_groups())
    heads = (heads + 1) / 2;
  p.unit_heads = static_cast<Int>(heads);
  p.q_type = static_cast<Int>(a.q.dtype);
  p.out_type = static_cast<Int>(a.out.dtype);
  p.bias_type = static_cast<Int>(a.bias.dtype);
  p.bias_order = static_cast<Int>(a.bias_order);
  p.scale = a.scale;
  p.q_factor = a.scale * a.k.factor;
  p.value_factor = a.v.factor;
  p.softcap = a.softcap;
  // Below 2^-128 a softcap has no reciprocal, and a score of 0 no product with one; any large factor gives +-softcap.
  p.inverse_softcap = std::min(1 / p.softcap, std::numeric_limits<float>::max());
  return p;
}

}  // namespace

std::size_t attention_scratch(const Cl& cl, const AttentionCall& call) {
  const PartialRows rows = partial_rows(cl, call);
  return WorkspaceCutter::padded<Sequence>(call.batch()) + WorkspaceCutter::padded<float>(rows.sums * call.v.dim) +
         WorkspaceCutter::padded<float>(rows.states * 2);
}

AttentionScratch::AttentionScratch(const Cl& cl, const AttentionCall& call, const SpaceWorkspace<Cl>& workspace) {
  const PartialRows rows = partial_rows(cl, call);
  BufferCutter cutter(workspace);
  sequences = cutter.take<Long>(call.batch() * static_cast<index>(sizeof(Sequence) / sizeof(Long)));
  if (rows.sums > 0) partial = cutter.take<float>(rows.sums * call.v.dim);
  if (rows.states > 0) state = cutter.take<float>(rows.states * 2);
}

Status attend(Cl& cl, const AttentionCall& call, const AttentionScratch& scratch, index first, index batch) {
  const AttentionCall& a = call;
  const Runtime& runtime = cl.runtime();
  const TileConfig config = tile_config(runtime, a);
  const Problem p = device_problem(a, runtime, config, first, batch);
  const ConstPagedView<Cl> k = a.k.of(first), v = a.v.of(first);
  const bool aligned_cache = aligned(cl, k, v);
  const Grid grid{.groups = {units_of(config, a, batch).count, groups_of(p.kv_heads, p.unit_heads), p.splits},
                  .lanes = {config.lanes}};
  const bool unrolled = !runtime.per_item() && !runtime.device().is_cpu;
  const auto launch_over_keys = [&](const ProgramKey& key, const char* kernel, const BufferArg& keys,
                                    const BufferArg& values) {
    return launch(cl, key, kernel, grid,
                  AttentionArguments{.problem = p,
                                     .k_type = static_cast<Int>(k.dtype),
                                     .v_type = static_cast<Int>(v.dtype),
                                     .aligned = aligned_cache && aligned(cl, a.q)},
                  {{"sequences", scratch.sequences},
                   {"q", bytes_of(a.q)},
                   {"k", keys},
                   {"v", values},
                   {"table", a.block_table},
                   {"bias", bytes_of(a.bias)},
                   {"mask", a.mask},
                   {"packed", a.packed_mask},
                   {"slopes", a.alibi_slopes},
                   {"sinks", a.sinks},
                   {"k_scale", a.k.scale},
                   {"k_offset", a.k.offset},
                   {"v_scale", a.v.scale},
                   {"v_offset", a.v.offset},
                   {"out", bytes_of(a.out)},
                   {"lse", a.lse},
                   {"out_scale", a.out_scale},
                   {"out_offset", a.out_offset},
                   {"partial", scratch.partial},
                   {"partial_state", scratch.state}});
  };
  Status status;
  if (config.tiled) {
    ProgramKey key("attention/prefill");
    key.number("DIM", config.dim).number("ROWS", config.rows).number("LANES", config.lanes).flag("UNROLLED", unrolled);
    status = launch_over_keys(key, "prefill", bytes_of(k), bytes_of(v));
  } else {
    // 16 slots and more of a dim of V lie side by side.
    const bool value_slots = v.extents[2] > 1 && v.extents[4] == 1 && v.strides[3] == 1 && a.block_size() % 16 == 0;
    ProgramKey key("attention/attend");
    key.type("K", k.dtype)
        .type("V", v.dtype)
        .flag("K_CODES", k.dtype == DType::i8)
        .flag("V_CODES", v.dtype == DType::i8)
        .number("K_PIECE", piece_class(k))
        .number("V_PIECE", piece_class(v))
        .number("DIM", config.dim)
        .number("ROWS", config.rows)
        .number("UNIT_ROWS", config.unit_rows)
        .number("LANES", config.lanes)
        .flag("V_SLOTS", value_slots)
        .flag("TRANSPOSED", config.transposed)
        .flag("ALIGNED", aligned_cache);
    if (!runtime.per_item()) key.number("KEY_LANES", config.key_lanes).flag("UNROLLED", unrolled);
    status = launch_over_keys(key, "attend", buffer_of(k), buffer_of(v));
  }
  if (!status.ok() || p.splits == 1) return status;
  const int merge_lanes = std::min(config.lanes, 128);  // dims of a row
  return launch(cl, ProgramKey("attention/merge").number("LANES", merge_lanes), "merge",
                {.groups = {p.q_len * p.q_heads, p.batch}, .lanes = {merge_lanes}}, MergeArguments{.problem = p},
                {{"sequences", scratch.sequences},
                 {"sinks", a.sinks},
                 {"out", bytes_of(a.out)},
                 {"lse", a.lse},
                 {"out_scale", a.out_scale},
                 {"out_offset", a.out_offset},
                 {"partial", scratch.partial},
                 {"partial_state", scratch.state}});
}

}  // namespace inlay::cl
