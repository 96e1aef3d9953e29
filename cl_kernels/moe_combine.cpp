#include <inlay/ops/moe_combine.hpp>

#include "cl_kernels/moe_combine.clh"
#include "cl_kernels/moe_combine_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

namespace {

// An entry of rows, counted row by row.
FaultSlot row_fault_slot(Cl& cl, index top_k, index x_rows) {
  return cl.runtime().fault_slot([top_k, x_rows](std::int64_t at, std::int64_t value) {
    return offence<MoeCombine<Cl>>(invalid("rows[" + std::to_string(at / top_k) + "," + std::to_string(at % top_k) +
                                           "] is " + std::to_string(value) + "; it must be in 0.." +
                                           std::to_string(x_rows - 1)));
  });
}

}  // namespace

template <> std::size_t scratch_bytes(Cl&, const MoeCombine<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const MoeCombine<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(moe_combine_lanes);
  const index dim = op.y.extents[1], piece = cl.runtime().tuned(moe_combine_piece);
  const ProgramKey key = ProgramKey("moe_combine")
                             .number("LANES", lanes)
                             .type("X", op.x.dtype)
                             .type("Y", op.y.dtype)
                             .type("GATE", op.shared_gate.present() ? op.shared_gate.dtype : DType::f32)
                             .flag("ALIGNED", aligned(cl, op.x, op.shared, op.y));
  return launch(cl, key, "moe_combine", {.groups = {op.y.extents[0], groups_of(dim, piece)}, .lanes = {lanes}},
                MoeCombineArguments{.x_stride = op.x.strides[0],
                                    .x_rows = op.x.extents[0],
                                    .rows_stride = op.rows.strides[0],
                                    .weights_stride = op.weights.strides[0],
                                    .shared_stride = op.shared.strides[0],
                                    .gate_stride = op.shared_gate.strides[0],
                                    .y_stride = op.y.strides[0],
                                    .dim = dim,
                                    .piece = piece,
                                    .top_k = op.rows.extents[1],
                                    .fault = row_fault_slot(cl, op.rows.extents[1], op.x.extents[0])},
                {{"x", op.x},
                 {"rows", op.rows},
                 {"weights", op.weights},
                 {"shared", op.shared},
                 {"shared_gate", op.shared_gate},
                 {"y", op.y},
                 faults_of(cl)});
}

}  // namespace inlay::cl
