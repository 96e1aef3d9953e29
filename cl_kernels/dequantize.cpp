#include <inlay/ops/dequantize.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "cl_kernels/support/scales.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Dequantize<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Dequantize<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(Tunable::dequantize_lanes);
  const Granularity granularity = granularity_of(op);
  const Variant variant = Variant("dequantize")
                              .number("LANES", lanes)
                              .number("WIDTH", cl.runtime().tuned(Tunable::dequantize_width))
                              .type("CODE", op.x.dtype)
                              .type("REAL", op.y.dtype)
                              .flag("NIBBLES", bits(op.x.dtype) < 8)
                              .flag("ALIGNED", aligned(cl, op.x, op.scale, op.zero, op.y));
  return launch(cl, variant, "dequantize", {.groups = {row_groups(op.x.extents[0], op.x.dtype)}, .lanes = {lanes}},
                op.x, op.x.strides[0], op.scale, op.scale.strides[0], granularity.type, op.zero, op.zero.strides[0],
                granularity.row_group, granularity.column_group, op.y, op.y.strides[0], op.x.extents[0],
                op.x.extents[1]);
}

}  // namespace inlay::cl
