#include <inlay/ops/quantize.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "cl_kernels/support/scales.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Quantize<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Quantize<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(Tunable::quantize_lanes);
  const index rows = op.x.extents[0], cols = op.x.extents[1];
  const Grid grid{.groups = {row_groups(rows, op.y.dtype)}, .lanes = {lanes}};
  const Variant variant = Variant("quantize")
                              .number("LANES", lanes)
                              .number("WIDTH", cl.runtime().tuned(Tunable::quantize_width))
                              .type("REAL", op.x.dtype)
                              .type("CODE", op.y.dtype)
                              .flag("NIBBLES", bits(op.y.dtype) < 8)
                              .flag("ALIGNED", aligned(cl, op.x, op.scale, op.zero, op.y));
  if (op.row_scale.present())
    return launch(cl, variant, "quantize_rows", grid, op.x, op.x.strides[0], op.y, op.y.strides[0], op.row_scale,
                  op.row_zero, rows, cols);
  const Granularity granularity = granularity_of(op);
  return launch(cl, variant, "quantize", grid, op.x, op.x.strides[0], op.scale, op.scale.strides[0], granularity.type,
                op.zero, op.zero.strides[0], granularity.row_group, granularity.column_group, op.y, op.y.strides[0],
                rows, cols);
}

}  // namespace inlay::cl
