#include <inlay/ops/rms_norm.hpp>

#include "cl_kernels/rms_norm.clh"
#include "cl_kernels/rms_norm_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const RmsNorm<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const RmsNorm<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(rms_norm_lanes);
  const bool quantized = op.y.dtype == DType::i8;
  const ProgramKey key = ProgramKey("rms_norm")
                             .number("LANES", lanes)
                             .number("WIDTH", cl.runtime().tuned(rms_norm_width))
                             .type("X", op.x.dtype)
                             .type("W", op.weight.dtype)
                             .type("Y", op.y.dtype)
                             .flag("RESIDUAL", op.residual.present())
                             .flag("QUANTIZED", quantized)
                             .flag("RESCALES", op.x.dtype != DType::f16)
                             .flag("CASTS", op.weight_offset == 0 && !quantized && op.x.dtype != DType::f32)
                             .flag("ALIGNED", aligned(cl, op.x, op.weight, op.residual, op.y) && op.heads == 1);
  return launch(cl, key, "rms_norm", {.groups = {op.x.extents[0], op.heads}, .lanes = {lanes}},
                RmsNormArguments{.x_stride = op.x.strides[0],
                                 .residual_stride = op.residual.strides[0],
                                 .y_stride = op.y.strides[0],
                                 .dim = op.weight.extents[0],
                                 .eps = op.eps,
                                 .offset = op.weight_offset},
                {{"x", op.x}, {"weight", op.weight}, {"residual", op.residual}, {"y", op.y}, {"y_scale", op.y_scale}});
}

}  // namespace inlay::cl
