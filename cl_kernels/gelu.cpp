#include <inlay/ops/gelu.hpp>

#include "cl_kernels/support/pieces.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Gelu<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Gelu<Cl>& op, const SpaceWorkspace<Cl>&) {
  return launch_by_pieces(cl, "gelu", {Tunable::gelu_lanes, Tunable::gelu_piece, Tunable::gelu_width}, op.x, op.up,
                          op.y, static_cast<int>(op.form));
}

}  // namespace inlay::cl
