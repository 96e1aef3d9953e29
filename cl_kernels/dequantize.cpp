#include <inlay/ops/dequantize.hpp>

#include "cl_kernels/dequantize.clh"
#include "cl_kernels/dequantize_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"
#include "cl_kernels/support/scales.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Dequantize<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Dequantize<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(dequantize_lanes);
  const Granularity granularity = granularity_of(op);
  const ProgramKey key = ProgramKey("dequantize")
                             .number("LANES", lanes)
                             .number("WIDTH", cl.runtime().tuned(dequantize_width))
                             .type("CODE", op.x.dtype)
                             .type("REAL", op.y.dtype)
                             .flag("NIBBLES", bits(op.x.dtype) < 8)
                             .flag("ALIGNED", aligned(cl, op.x, op.scale, op.zero, op.y));
  return launch(cl, key, "dequantize", {.groups = {row_groups(op.x.extents[0], op.x.dtype)}, .lanes = {lanes}},
                DequantizeArguments{.x_stride = op.x.strides[0],
                                    .scale_stride = op.scale.strides[0],
                                    .zero_stride = op.zero.strides[0],
                                    .row_group = granularity.row_group,
                                    .column_group = granularity.column_group,
                                    .y_stride = op.y.strides[0],
                                    .rows = op.x.extents[0],
                                    .cols = op.x.extents[1],
                                    .scale_type = granularity.type},
                {{"x", op.x}, {"scale", op.scale}, {"zero", op.zero}, {"y", op.y}});
}

}  // namespace inlay::cl
