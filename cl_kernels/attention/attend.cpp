#include "cl_kernels/attention/attend.hpp"

#include <algorithm>
#include <limits>

namespace inlay::cl {

namespace {

// How a call is cut. Neither heads nor units leave a trace in the result.
struct Cut {
  int dim, rows, unit_rows, key_lanes, lanes;
  bool tiled;   // attention/prefill.cl
  bool turned;  // attention/cpu_products.clh
};

Cut cut_of(const Runtime& runtime, const Attention& a) {
  const int widest = std::max(a.problem.k.dim, a.problem.v.dim);
  Cut cut{};
  cut.lanes = runtime.lanes(Tunable::attention_lanes);
  for (int dim : {64, 128, 256, 576})
    if (cut.dim == 0 && widest <= dim && (dim > 64 || !runtime.cpu_shape())) cut.dim = dim;
  if (cut.dim == 0) cut.dim = static_cast<int>(groups_of(widest, 512) * 512);
  // Rows of a chunk have the bits of the whole: where that is asked for, one row goes as many do.
  const bool one = a.rows == 1 && a.ragged_rows == 0;
  if (runtime.cpu_shape()) {
    cut.turned = a.by_chunks || a.rows >= 16;
    cut.rows = one && !cut.turned ? 1 : 4;
    cut.unit_rows = std::max(4, cut.dim <= 256 ? runtime.tuned(Tunable::attention_unit_rows) : 8192 / cut.dim / 4 * 4);
  } else {
    const bool flat = a.k_piece == 0 && a.v_piece == 0 && !a.slots_of_values;
    cut.tiled = flat && cut.dim <= 576 && (a.by_chunks || a.rows > 16);
    cut.rows = cut.unit_rows = (one && !a.by_chunks) || cut.dim > 576 ? 1 : cut.dim <= 256 ? 4 : 2;
    cut.key_lanes = std::min(cut.dim / 8, 32);
    if (cut.tiled) cut.rows = cut.unit_rows = cut.lanes / 16 * (cut.dim <= 128 ? 4 : cut.dim <= 256 ? 2 : 1);
  }
  return cut;
}

// Units of the rows (query, head of the group) of a kv head.
struct Units {
  index rows, of_sequence, count;  // of_sequence: 0 where queries are ragged
};

Units units_of(const Cut& cut, const Attention& a) {
  if (a.ragged_rows > 0) return {cut.unit_rows, 0, a.ragged_rows / cut.unit_rows + a.problem.batch};
  const index rows = std::clamp<index>(groups_of(a.rows, cut.rows) * cut.rows, 1, cut.unit_rows);
  const index of_sequence = groups_of(a.rows, rows);
  return {rows, of_sequence, of_sequence * a.problem.batch};
}

constexpr index most_groups = 65535;  // of the third dimension, on NVIDIA

// Parts that go side by side; with 1 a unit takes one after the other. Decoding's always do. Rows of chunks have the
// same bits in both ways, so that speed decides: side by side where units, of a kv head each, do not fill the device,
// and only so many rows that their partial results in f32 take a quarter of the memory of K and V in 16 bits.
index splits_of(const Runtime& runtime, const Cut& cut, const Attention& a) {
  if (!a.by_chunks || !(runtime.cpu_shape() || cut.tiled)) return a.parts;
  const bool few_units = units_of(cut, a).count * a.problem.kv_heads < runtime.busy_groups();
  const bool few_rows = std::max(a.rows, a.ragged_rows) <= a.problem.split / 4;
  return few_units && few_rows && a.parts <= most_groups ? a.parts : 1;
}

// Rows in scratch: of each part or, in the gpu shape, the sums of those so far. In the cpu shape a work-item has them.
struct PartialRows {
  index sums, states;
};

PartialRows partial_rows(const Cl& cl, const Attention& a) {
  if (a.parts == 1) return {};
  const index splits = splits_of(cl.runtime(), cut_of(cl.runtime(), a), a), rows = a.problem.tokens * a.problem.q_heads;
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
  PartCutter cutter(workspace);
  sequences = cutter.take<Long>(batch * static_cast<index>(sizeof(Sequence) / sizeof(Long)));
  if (rows.sums > 0) partial = cutter.take<float>(rows.sums * attention.problem.v.dim);
  if (rows.states > 0) state = cutter.take<float>(rows.states * 2);
}

Status attend(Cl& cl, const Attention& attention, const AttentionScratch& scratch) {
  const Attention& a = attention;
  const Runtime& runtime = cl.runtime();
  const Cut cut = cut_of(runtime, a);
  Problem p = a.problem;
  p.group = p.q_heads / p.kv_heads;
  // Below 2^-128 a softcap has no reciprocal, and a score of 0 no product with one; any large factor gives +-softcap.
  p.inverse_softcap = std::min(1 / p.softcap, std::numeric_limits<float>::max());
  const Units units = units_of(cut, a);
  p.unit_rows = static_cast<Int>(units.rows);
  p.tiles = units.of_sequence;
  p.splits = static_cast<Int>(splits_of(runtime, cut, a));
  index heads = runtime.cpu_shape() ? std::min<index>(p.kv_heads, cut.unit_rows / p.unit_rows) : 1;
  while (heads > 1 && units.count * p.splits * groups_of(p.kv_heads, heads) < runtime.busy_groups())
    heads = (heads + 1) / 2;
  p.unit_heads = static_cast<Int>(heads);
  const Grid grid{.groups = {units.count, groups_of(p.kv_heads, heads), p.splits}, .lanes = {cut.lanes}};
  const bool unrolled = !runtime.cpu_shape() && !runtime.device().is_cpu;
  const auto launch_over_keys = [&](const Variant& variant, const char* kernel, const Part& k, const Part& v,
                                    const auto&... more) {
    return launch(cl, variant, kernel, grid, p, scratch.sequences, a.q, k, v, a.table, a.bias, a.mask, a.packed,
                  a.slopes, a.sinks, a.k_scale, a.k_offset, a.v_scale, a.v_offset, a.out, a.lse, a.out_scale,
                  a.out_offset, scratch.partial, scratch.state, more...);
  };
  Status status;
  if (cut.tiled) {
    Variant variant("attention/prefill");
    variant.number("DIM", cut.dim).number("ROWS", cut.rows).number("LANES", cut.lanes).flag("UNROLLED", unrolled);
    status = launch_over_keys(variant, "prefill", {a.k.address, 1}, {a.v.address, 1}, static_cast<int>(a.k_type),
                              static_cast<int>(a.v_type), a.aligned && a.q_aligned);
  } else {
    Variant variant("attention/attend");
    variant.type("K", a.k_type)
        .type("V", a.v_type)
        .flag("K_CODES", a.k_type == DType::i8)
        .flag("V_CODES", a.v_type == DType::i8)
        .number("K_PIECE", a.k_piece)
        .number("V_PIECE", a.v_piece)
        .number("DIM", cut.dim)
        .number("ROWS", cut.rows)
        .number("UNIT_ROWS", cut.unit_rows)
        .number("LANES", cut.lanes)
        .flag("V_SLOTS", a.slots_of_values)
        .flag("TURNED", cut.turned)
        .flag("ALIGNED", a.aligned);
    if (!runtime.cpu_shape()) variant.number("KEY_LANES", cut.key_lanes).flag("UNROLLED", unrolled);
    status = launch_over_keys(variant, "attend", a.k, a.v);
  }
  if (!status.ok() || p.splits == 1) return status;
  return launch(cl, Variant("attention/merge").number("LANES", cut.lanes), "merge",
                {.groups = {p.q_len * p.q_heads, p.batch}, .lanes = {cut.lanes}}, p, scratch.sequences, a.sinks, a.out,
                a.lse, a.out_scale, a.out_offset, scratch.partial, scratch.state);
}

}  // namespace inlay::cl
