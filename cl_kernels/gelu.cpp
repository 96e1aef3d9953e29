#include <inlay/ops/gelu.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "cl_kernels/support/pieces.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Gelu<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Gelu<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(Tunable::gelu_lanes);
  const Pieces pieces = pieces_of(cl, Tunable::gelu_piece, op.x.extents[1]);
  const Variant variant = Variant("gelu")
                              .number("LANES", lanes)
                              .number("WIDTH", cl.runtime().tuned(Tunable::gelu_width))
                              .type("T", op.x.dtype)
                              .flag("ALIGNED", aligned(cl, op.x, op.up, op.y));
  return launch(cl, variant, "gelu", {.groups = {op.x.extents[0], pieces.count}, .lanes = {lanes}}, op.x,
                op.x.strides[0], op.up, op.up.strides[0], op.y, op.y.strides[0], op.x.extents[1], pieces.length,
                static_cast<int>(op.form));
}

}  // namespace inlay::cl
