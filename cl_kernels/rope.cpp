#include <inlay/ops/rope.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

namespace {

// How many ints an id takes; 0 where none are given.
template <class V> int words(const V& list) { return list.present() ? bits(list.dtype) / 32 : 0; }

}  // namespace

template <> std::size_t scratch_bytes(Cl&, const RopeTable<Cl>&) { return 0; }
template <> std::size_t scratch_bytes(Cl&, const Rope<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const RopeTable<Cl>& op, const SpaceWorkspace<Cl>&) {
  const bool cpu_shape = cl.runtime().cpu_shape();
  const index tokens = op.cos.extents[0], pairs = op.cos.extents[1];
  const int lanes = cl.runtime().lanes(32);
  // A CPU has few tasks, of a whole row each; a GPU reads a frequency once for some tokens.
  const index tokens_each = cpu_shape ? 1 : 4, pairs_each = cpu_shape ? pairs : 1;
  return launch(cl, Variant("rope_table").flag("FP64", cl.runtime().has_doubles()), "rope_table",
                {.groups = {groups_of(tokens, tokens_each), groups_of(pairs, pairs_each * lanes)}, .lanes = {1, lanes}},
                op.positions, op.positions.strides[0], op.positions.strides[1], words(op.positions), op.inv_freq,
                op.inv_freq.strides[0], static_cast<int>(op.inv_freq.extents[0]), op.axis, op.axis.strides[0], op.cos,
                op.cos.strides[0], op.sin, op.sin.strides[0], op.positions.extents[0], tokens, pairs, tokens_each,
                pairs_each, op.magnitude, place_of_entry<RopeTable<Cl>>(cl, "axis", op.positions.extents[0]));
}

template <> Status compute(Cl& cl, const Rope<Cl>& op, const SpaceWorkspace<Cl>&) {
  const bool cpu_shape = cl.runtime().cpu_shape();
  const auto& [tokens, heads, dim] = op.x.extents;
  const index rows = op.cos.extents[0], pairs = op.cos.extents[1];
  const bool copies = op.x.data != ConstClAddress(op.y.data);
  const int lanes = cl.runtime().lanes(Tunable::rope_lanes);
  constexpr index width = 8;  // support/rows.clh, the gpu shape
  const index pieces = groups_of(pairs, width) + (copies ? groups_of(dim - 2 * pairs, width) : 0);
  const index groups = cpu_shape || pieces == 0 ? 1 : groups_of(heads * pieces, lanes);
  const bool whole = op.first % width == 0 && (op.interleaved || pairs % width == 0);
  const Variant variant = Variant("rope")
                              .type("X", op.x.dtype)
                              .type("TABLE", op.cos.dtype)
                              .flag("ALIGNED", whole && aligned(cl, op.x, op.cos, op.sin, op.y));
  return launch(cl, variant, "rope", {.groups = {tokens, groups}, .lanes = {1, lanes}}, op.x, op.x.strides[0],
                op.x.strides[1], op.cos, op.cos.strides[0], op.sin, op.sin.strides[0], op.positions,
                op.positions.strides[0], words(op.positions), op.y, op.y.strides[0], op.y.strides[1], rows, heads, dim,
                pairs, op.first, op.interleaved, copies, place_of_entry<Rope<Cl>>(cl, "positions", rows));
}

}  // namespace inlay::cl
