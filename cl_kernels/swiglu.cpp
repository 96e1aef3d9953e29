#include <inlay/ops/swiglu.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "cl_kernels/support/pieces.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Swiglu<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Swiglu<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(Tunable::swiglu_lanes);
  const Pieces pieces = pieces_of(cl, Tunable::swiglu_piece, op.y.extents[1]);
  const Variant variant = Variant("swiglu")
                              .number("LANES", lanes)
                              .number("WIDTH", cl.runtime().tuned(Tunable::swiglu_width))
                              .type("T", op.y.dtype)
                              .flag("ALIGNED", aligned(cl, op.gate, op.up, op.y));
  return launch(cl, variant, "swiglu", {.groups = {op.y.extents[0], pieces.count}, .lanes = {lanes}}, op.gate,
                op.gate.strides[0], op.up, op.up.strides[0], op.y, op.y.strides[0], op.y.extents[1], pieces.length,
                op.alpha, op.limit, op.up_offset);
}

}  // namespace inlay::cl
