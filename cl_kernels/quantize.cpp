#include <inlay/ops/quantize.hpp>

#include "cl_kernels/quantize.clh"
#include "cl_kernels/quantize_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"
#include "cl_kernels/support/scales.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Quantize<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Quantize<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(quantize_lanes);
  const index rows = op.x.extents[0], cols = op.x.extents[1];
  const Grid grid{.groups = {row_groups(rows, op.y.dtype)}, .lanes = {lanes}};
  const ProgramKey key = ProgramKey("quantize")
                             .number("LANES", lanes)
                             .number("WIDTH", cl.runtime().tuned(quantize_width))
                             .type("REAL", op.x.dtype)
                             .type("CODE", op.y.dtype)
                             .flag("NIBBLES", bits(op.y.dtype) < 8)
                             .flag("ALIGNED", aligned(cl, op.x, op.scale, op.zero, op.y));
  if (op.row_scale.present())
    return launch(
        cl, key, "quantize_rows", grid,
        QuantizeRowsArguments{.x_stride = op.x.strides[0], .y_stride = op.y.strides[0], .rows = rows, .cols = cols},
        {{"x", op.x}, {"y", op.y}, {"row_scale", op.row_scale}, {"row_zero", op.row_zero}});
  const Granularity granularity = granularity_of(op);
  return launch(cl, key, "quantize", grid,
                QuantizeArguments{.x_stride = op.x.strides[0],
                                  .scale_stride = op.scale.strides[0],
                                  .zero_stride = op.zero.strides[0],
                                  .row_group = granularity.row_group,
                                  .column_group = granularity.column_group,
                                  .y_stride = op.y.strides[0],
                                  .rows = rows,
                                  .cols = cols,
                                  .scale_type = granularity.type},
                {{"x", op.x}, {"scale", op.scale}, {"zero", op.zero}, {"y", op.y}});
}

}  // namespace inlay::cl
