#include <inlay/ops/merge_states.hpp>

#include "cl_kernels/merge_states.clh"
#include "cl_kernels/merge_states_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const MergeStates<Cl>& op) {
  return WorkspaceCutter::padded<float>(op.partial_lse.size());
}

template <> Status compute(Cl& cl, const MergeStates<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const auto& [states, tokens, heads, dim] = op.partial_out.extents;
  const auto& of_parts = op.partial_out.strides;
  const auto& of_lse = op.partial_lse.strides;
  const int lanes = cl.runtime().lanes(merge_states_lanes);
  const index rows = tokens * heads, rows_a_group = cl.runtime().tuned(merge_states_rows);
  const ProgramKey key = ProgramKey("merge_states")
                             .number("LANES", lanes)
                             .type("X", op.partial_out.dtype)
                             .type("Y", op.out.dtype)
                             .flag("ALIGNED", aligned(cl, op.partial_out, op.out));
  return launch(cl, key, "merge_states", {.groups = {1, groups_of(rows, rows_a_group)}, .lanes = {lanes, rows_a_group}},
                MergeStatesArguments{.parts_state = of_parts[0],
                                     .parts_token = of_parts[1],
                                     .parts_head = of_parts[2],
                                     .lse_state = of_lse[0],
                                     .lse_token = of_lse[1],
                                     .lse_head = of_lse[2],
                                     .out_token = op.out.strides[0],
                                     .out_head = op.out.strides[1],
                                     .lse_out_token = op.lse.strides[0],
                                     .lse_out_head = op.lse.strides[1],
                                     .rows = rows,
                                     .heads = heads,
                                     .states = states,
                                     .dim = dim},
                {{"parts", op.partial_out},
                 {"partial_lse", op.partial_lse},
                 {"out", op.out},
                 {"lse", op.lse},
                 {"shares", BufferCutter(workspace).take<float>(op.partial_lse.size())}});
}

}  // namespace inlay::cl
