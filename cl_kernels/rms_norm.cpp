#include <inlay/ops/rms_norm.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const RmsNorm<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const RmsNorm<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(Tunable::rms_norm_lanes);
  const bool quantized = op.y.dtype == DType::i8;
  const Variant variant = Variant("rms_norm")
                              .number("LANES", lanes)
                              .number("WIDTH", cl.runtime().tuned(Tunable::rms_norm_width))
                              .type("X", op.x.dtype)
                              .type("W", op.weight.dtype)
                              .type("Y", op.y.dtype)
                              .flag("RESIDUAL", op.residual.present())
                              .flag("QUANTIZED", quantized)
                              .flag("CASTS", op.weight_offset == 0 && !quantized && op.x.dtype != DType::f32)
                              .flag("ALIGNED", aligned(cl, op.x, op.weight, op.residual, op.y) && op.heads == 1);
  return launch(cl, variant, "rms_norm", {.groups = {op.x.extents[0], op.heads}, .lanes = {lanes}}, op.x,
                op.x.strides[0], op.weight, op.residual, op.residual.strides[0], op.y, op.y.strides[0], op.y_scale,
                op.weight.extents[0], op.eps, op.weight_offset);
}

}  // namespace inlay::cl
