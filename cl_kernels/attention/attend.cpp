#include "cl_kernels/attention/attend.hpp"

#include <algorithm>
#include <limits>

namespace inlay::cl {

namespace {

// How a call is cut. Neither heads nor units leave a trace in the result.
struct TileConfig {
  int dim, rows, unit_rows, key_lanes, lanes;
  bool tiled;       // attention/prefill.cl
  bool transposed;  // attention/cpu_products.clh
};

TileConfig tile_config(const Runtime& runtime, const Attention& a) {
  const int widest = std::max(a.problem.k.dim, a.problem.v.dim);
  TileConfig config{};
  config.lanes = runtime.lanes(Tunable::attention_lanes);
  for (int dim : {64, 128, 256, 576})
    if (config.dim == 0 && widest <= dim && (dim > 64 || !runtime.cpu_shape())) config.dim = dim;
  if (config.dim == 0) config.dim = static_cast<int>(groups_of(widest, 512) * 512);
  // Rows of a chunk have the bits of the whole: where that is asked for, one row goes as many do.
  const bool one = a.rows == 1 && a.ragged_rows == 0;
  if (runtime.cpu_shape()) {
    config.transposed = a.by_chunks || a.rows >= 16;
    config.rows = one && !config.transposed ? 1 : 4;
    config.unit_rows =
        std::max(4, config.dim <= 256 ? runtime.tuned(Tunable::attention_unit_rows) : 8192 / config.dim / 4 * 4);
  } else {
    const bool flat = a.k_piece == 0 && a.v_piece == 0 && !a.slots_of_values;
    config.tiled = flat && config.dim <= 576 && (a.by_chunks || a.rows > 16);
    config.rows = config.unit_rows = (one && !a.by_chunks) || config.dim > 576 ? 1 : config.dim <= 256 ? 4 : 2;
    config.key_lanes = std::min(config.dim / 8, 32);
    if (config.tiled)
      config.rows = config.unit_rows = config.lanes / 16 * (config.dim <= 128 ? 4 : config.dim <= 256 ? 2 : 1);
  }
  return config;
}

// Units of the rows (query, head of the group) of a kv head.
struct Units {
  index rows, of_sequence, count;  // of_sequence: 0 where queries are ragged
};

Units units_of(const TileConfig& config, const Attention& a) {
  if (a.ragged_rows > 0) return {config.unit_rows, 0, a.ragged_rows / config.unit_rows + a.problem.batch};
  const index rows = std::clamp<index>(groups_of(a.rows, config.rows) * config.rows, 1, config.unit_rows);
  const index of_sequence = groups_of(a.rows, rows);
  return {rows, of_sequence, of_sequence * a.problem.batch};
}

constexpr index most_groups = 65535;  // of the third dimension, on NVIDIA

// Parts that go side by side; with 1 a unit takes one after the other. Decoding's always do. Rows of chunks have the
// same bits in both ways, so that speed decides: side by side where units, of a kv head each, do not fill the device,
// and only so many rows that their partial results in f32 take a quarter of the memory of K and V in 16 bits.
index splits_of(const Runtime& runtime, const TileConfig& config, const Attention& a) {
  if (!a.by_chunks || !(runtime.cpu_shape() || config.tiled)) return a.parts;
  const bool few_units = units_of(config, a).count * a.problem.kv_heads < runtime.busy_groups();
  const bool few_rows = std::max(a.rows, a.ragged_rows) <= a.problem.split / 4;
  return few_units && few_rows && a.parts <= most_groups ? a.parts : 1;
}

// Rows in scratch: of each part or, in the gpu shape, the sums of those so far. In the cpu shape a work-item has them.
struct PartialRows {
  index sums, states;
};

PartialRows partial_rows(const Cl& cl, const Attention& a) {
  if (a.parts == 1) return {};
  const index splits = splits_of(cl.runtime(), tile_config(cl.runtime(), a), a),
              rows = a.problem.tokens * a.problem.q_heads;
  if (splits > 1) return {splits * rows, splits * rows};
  return {cl.runtime().cpu_shape() ? 0 : rows, 0};
}

}  // namespace

std::size_t attention_scratch(const Cl& cl, const Attention& attention, index batch) {
  const PartialRows rows = partial_rows(cl, attention);
  return WorkspaceCutter::padded<Sequence>(batch) +
         WorkspaceCutter::padded<float>(rows.sums * attention.problem.v.dim) +
         WorkspaceCutter::padded<float>(rows.states * 2);
}

AttentionScratch::AttentionScratch(const Cl& cl, const Attention& attention, index batch,
                                   const SpaceWorkspace<Cl>& workspace) {
  const PartialRows rows = partial_rows(cl, attention);
  BufferCutter cutter(workspace);
  sequences = cutter.take<Long>(batch * static_cast<index>(sizeof(Sequence) / sizeof(Long)));
  if (rows.sums > 0) partial = cutter.take<float>(rows.sums * attention.problem.v.dim);
  if (rows.states > 0) state = cutter.take<float>(rows.states * 2);
}

Status attend(Cl& cl, const Attention& attention, const AttentionScratch& scratch) {
  const Attention& a = attention;
  const Runtime& runtime = cl.runtime();
  const TileConfig config = tile_config(runtime, a);
  Problem p = a.problem;
  p.group = p.q_heads / p.kv_heads;
  // Below 2^-128 a softcap has no reciprocal, and a score of 0 no product with one; any large factor gives +-softcap.
  p.inverse_softcap = std::min(1 / p.softcap, std::numeric_limits<float>::max());
  const Units units = units_of(config, a);
  p.unit_rows = static_cast<Int>(units.rows);
  p.tiles = units.of_sequence;
  p.splits = static_cast<Int>(splits_of(runtime, config, a));
  index heads = runtime.cpu_shape() ? std::min<index>(p.kv_heads, config.unit_rows / p.unit_rows) : 1;
  while (heads > 1 && units.count * p.splits * groups_of(p.kv_heads, heads) < runtime.busy_groups())
    heads = (heads + 1) / 2;
  p.unit_heads = static_cast<Int>(heads);
  const Grid grid{.groups = {units.count, groups_of(p.kv_heads, heads), p.splits}, .lanes = {config.lanes}};
  const bool unrolled = !runtime.cpu_shape() && !runtime.device().is_cpu;
  const auto launch_over_keys = [&](const ProgramKey& key, const char* kernel, const BufferArg& k, const BufferArg& v) {
    return launch(cl, key, kernel, grid,
                  AttentionArguments{.problem = p,
                                     .k_type = static_cast<Int>(a.k_type),
                                     .v_type = static_cast<Int>(a.v_type),
                                     .aligned = a.aligned && a.q_aligned},
                  {{"sequences", scratch.sequences},
                   {"q", a.q},
                   {"k", k},
                   {"v", v},
                   {"table", a.table},
                   {"bias", a.bias},
                   {"mask", a.mask},
                   {"packed", a.packed},
                   {"slopes", a.slopes},
                   {"sinks", a.sinks},
                   {"k_scale", a.k_scale},
                   {"k_offset", a.k_offset},
                   {"v_scale", a.v_scale},
                   {"v_offset", a.v_offset},
                   {"out", a.out},
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
    status = launch_over_keys(key, "prefill", {a.k.address, 8, "uchar"}, {a.v.address, 8, "uchar"});
  } else {
    ProgramKey key("attention/attend");
    key.type("K", a.k_type)
        .type("V", a.v_type)
        .flag("K_CODES", a.k_type == DType::i8)
        .flag("V_CODES", a.v_type == DType::i8)
        .number("K_PIECE", a.k_piece)
        .number("V_PIECE", a.v_piece)
        .number("DIM", config.dim)
        .number("ROWS", config.rows)
        .number("UNIT_ROWS", config.unit_rows)
        .number("LANES", config.lanes)
        .flag("V_SLOTS", a.slots_of_values)
        .flag("TRANSPOSED", config.transposed)
        .flag("ALIGNED", a.aligned);
    if (!runtime.cpu_shape()) key.number("KEY_LANES", config.key_lanes).flag("UNROLLED", unrolled);
    status = launch_over_keys(key, "attend", a.k, a.v);
  }
  if (!status.ok() || p.splits == 1) return status;
  return launch(cl, ProgramKey("attention/merge").number("LANES", config.lanes), "merge",
                {.groups = {p.q_len * p.q_heads, p.batch}, .lanes = {config.lanes}}, MergeArguments{.problem = p},
                {{"sequences", scratch.sequences},
                 {"sinks", a.sinks},
                 {"out", a.out},
                 {"lse", a.lse},
                 {"out_scale", a.out_scale},
                 {"out_offset", a.out_offset},
                 {"partial", scratch.partial},
                 {"partial_state", scratch.state}});
}

}  // namespace inlay::cl
