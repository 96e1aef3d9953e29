#include <inlay/ops/merge_states.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const MergeStates<Cl>& op) {
  return WorkspaceCutter::padded<float>(op.partial_lse.size());
}

template <> Status compute(Cl& cl, const MergeStates<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const auto& [states, tokens, heads, dim] = op.partial_out.extents;
  const auto& of_parts = op.partial_out.strides;
  const auto& of_lse = op.partial_lse.strides;
  const int lanes = cl.runtime().lanes(Tunable::merge_states_lanes);
  const index rows = tokens * heads, rows_a_group = cl.runtime().tuned(Tunable::merge_states_rows);
  const Variant variant = Variant("merge_states")
                              .number("LANES", lanes)
                              .type("X", op.partial_out.dtype)
                              .type("Y", op.out.dtype)
                              .flag("ALIGNED", aligned(cl, op.partial_out, op.out));
  return launch(cl, variant, "merge_states",
                {.groups = {1, groups_of(rows, rows_a_group)}, .lanes = {lanes, rows_a_group}}, op.partial_out,
                of_parts[0], of_parts[1], of_parts[2], op.partial_lse, of_lse[0], of_lse[1], of_lse[2], op.out,
                op.out.strides[0], op.out.strides[1], op.lse, op.lse.strides[0], op.lse.strides[1],
                PartCutter(workspace).take<float>(op.partial_lse.size()), rows, heads, states, dim);
}

}  // namespace inlay::cl
