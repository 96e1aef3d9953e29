#include <inlay/ops/layer_norm.hpp>

#include "cl_kernels/layer_norm.clh"
#include "cl_kernels/layer_norm_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const LayerNorm<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const LayerNorm<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(layer_norm_lanes);
  const DType weights = op.weight.present() ? op.weight.dtype : op.bias.present() ? op.bias.dtype : DType::f32;
  const ProgramKey key = ProgramKey("layer_norm")
                             .number("LANES", lanes)
                             .number("WIDTH", cl.runtime().tuned(layer_norm_width))
                             .type("X", op.x.dtype)
                             .type("W", weights)
                             .flag("RESIDUAL", op.residual.present())
                             .flag("RESCALES", op.x.dtype != DType::f16)
                             .flag("ALIGNED", aligned(cl, op.x, op.weight, op.bias, op.residual, op.y));
  return launch(cl, key, "layer_norm", {.groups = {op.x.extents[0]}, .lanes = {lanes}},
                LayerNormArguments{.x_stride = op.x.strides[0],
                                   .residual_stride = op.residual.strides[0],
                                   .y_stride = op.y.strides[0],
                                   .dim = op.x.extents[1],
                                   .eps = op.eps},
                {{"x", op.x}, {"weight", op.weight}, {"bias", op.bias}, {"residual", op.residual}, {"y", op.y}});
}

}  // namespace inlay::cl
