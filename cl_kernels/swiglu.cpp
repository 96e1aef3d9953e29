#include <inlay/ops/swiglu.hpp>

#include "cl_kernels/support/pieces.hpp"
#include "cl_kernels/swiglu.clh"
#include "cl_kernels/swiglu_tunables.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Swiglu<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Swiglu<Cl>& op, const SpaceWorkspace<Cl>&) {
  const ByPieces by(cl, "swiglu", {swiglu_lanes, swiglu_piece, swiglu_width}, op.gate, op.up, op.y);
  return launch(cl, by.key, "swiglu", by.grid,
                SwigluArguments{.gate_stride = op.gate.strides[0],
                                .up_stride = op.up.strides[0],
                                .y_stride = op.y.strides[0],
                                .dim = op.y.extents[1],
                                .piece = by.piece,
                                .alpha = op.alpha,
                                .limit = op.limit,
                                .up_offset = op.up_offset},
                {{"gate", op.gate}, {"up", op.up}, {"y", op.y}});
}

}  // namespace inlay::cl
