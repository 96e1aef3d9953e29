#include <inlay/ops/gelu.hpp>

#include "cl_kernels/gelu.clh"
#include "cl_kernels/gelu_tunables.hpp"
#include "cl_kernels/support/pieces.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Gelu<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Gelu<Cl>& op, const SpaceWorkspace<Cl>&) {
  const ByPieces by(cl, "gelu", {gelu_lanes, gelu_piece, gelu_width}, op.x, op.up, op.y);
  return launch(cl, by.key, "gelu", by.grid,
                GeluArguments{.x_stride = op.x.strides[0],
                              .up_stride = op.up.strides[0],
                              .y_stride = op.y.strides[0],
                              .dim = op.y.extents[1],
                              .piece = by.piece,
                              .form = static_cast<Int>(op.form),
                              .cap = op.cap,
                              .alpha_p = op.alpha_p,
                              .alpha_n = op.alpha_n,
                              .beta = op.beta,
                              .slope = xielu_slope(op),
                              .eps = op.eps},
                {{"x", op.x}, {"up", op.up}, {"y", op.y}});
}

}  // namespace inlay::cl
