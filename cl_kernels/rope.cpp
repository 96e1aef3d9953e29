#include <inlay/ops/rope.hpp>

#include "cl_kernels/rope.clh"
#include "cl_kernels/rope_table.clh"
#include "cl_kernels/rope_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

namespace {

// How many ints an id takes; 0 where none are given.
template <class V> int words(const V& list) { return list.present() ? bits(list.dtype) / 32 : 0; }

}  // namespace

template <> std::size_t scratch_bytes(Cl&, const RopeTable<Cl>&) { return 0; }
template <> std::size_t scratch_bytes(Cl&, const Rope<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const RopeTable<Cl>& op, const SpaceWorkspace<Cl>&) {
  const bool per_item = cl.runtime().per_item();
  const index tokens = op.cos.extents[0], pairs = op.cos.extents[1];
  const int lanes = cl.runtime().lanes(32);
  // A CPU has few tasks, of a whole row each; a GPU reads a frequency once for some tokens.
  const index tokens_each = per_item ? 1 : 4, pairs_each = per_item ? pairs : 1;
  const index axes = op.positions.extents[0];
  return launch(cl, ProgramKey("rope_table").flag("FP64", cl.runtime().has_doubles()), "rope_table",
                {.groups = {groups_of(tokens, tokens_each), groups_of(pairs, pairs_each * lanes)}, .lanes = {1, lanes}},
                RopeTableArguments{.axis_stride = op.positions.strides[0],
                                   .token_stride = op.positions.strides[1],
                                   .inv_freq_row = op.inv_freq.strides[0],
                                   .axes_stride = op.axis.strides[0],
                                   .cosine_stride = op.cos.strides[0],
                                   .sine_stride = op.sin.strides[0],
                                   .axis_count = axes,
                                   .tokens = tokens,
                                   .pairs = pairs,
                                   .tokens_each = tokens_each,
                                   .pairs_each = pairs_each,
                                   .position_words = words(op.positions),
                                   .frequency_rows = static_cast<Int>(op.inv_freq.extents[0]),
                                   .fault = entry_fault_slot<RopeTable<Cl>>(cl, "axis", axes),
                                   .magnitude = op.magnitude},
                {{"positions", op.positions},
                 {"inv_freq", op.inv_freq},
                 {"axes", op.axis},
                 {"cosine", op.cos},
                 {"sine", op.sin},
                 faults_of(cl)});
}

template <> Status compute(Cl& cl, const Rope<Cl>& op, const SpaceWorkspace<Cl>&) {
  const bool per_item = cl.runtime().per_item();
  const auto& [tokens, heads, dim] = op.x.extents;
  const index rows = op.cos.extents[0], pairs = op.cos.extents[1];
  const bool copies = op.x.data != ConstClAddress(op.y.data);
  const int lanes = cl.runtime().lanes(rope_lanes);
  constexpr index width = 8;  // support/rows.clh, the per-group shape
  const index pieces = groups_of(pairs, width) + (copies ? groups_of(dim - 2 * pairs, width) : 0);
  const index groups = per_item || pieces == 0 ? 1 : groups_of(heads * pieces, lanes);
  const bool whole = op.first % width == 0 && (op.interleaved || pairs % width == 0);
  const ProgramKey key = ProgramKey("rope")
                             .type("X", op.x.dtype)
                             .type("TABLE", op.cos.dtype)
                             .flag("ALIGNED", whole && aligned(cl, op.x, op.cos, op.sin, op.y));
  return launch(
      cl, key, "rope", {.groups = {tokens, groups}, .lanes = {1, lanes}},
      RopeArguments{.x_token = op.x.strides[0],
                    .x_head = op.x.strides[1],
                    .cosine_stride = op.cos.strides[0],
                    .sine_stride = op.sin.strides[0],
                    .positions_stride = op.positions.strides[0],
                    .y_token = op.y.strides[0],
                    .y_head = op.y.strides[1],
                    .rows = rows,
                    .heads = heads,
                    .dim = dim,
                    .pairs = pairs,
                    .first = op.first,
                    .position_words = words(op.positions),
                    .interleaved = op.interleaved,
                    .copies = copies,
                    .fault = entry_fault_slot<Rope<Cl>>(cl, "positions", rows)},
      {{"x", op.x}, {"cosine", op.cos}, {"sine", op.sin}, {"positions", op.positions}, {"y", op.y}, faults_of(cl)});
}

}  // namespace inlay::cl
