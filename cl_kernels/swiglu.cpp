#include <inlay/ops/swiglu.hpp>

#include "cl_kernels/support/pieces.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Swiglu<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Swiglu<Cl>& op, const SpaceWorkspace<Cl>&) {
  return launch_by_pieces(cl, "swiglu", {Tunable::swiglu_lanes, Tunable::swiglu_piece, Tunable::swiglu_width}, op.gate,
                          op.up, op.y, op.alpha, op.limit, op.up_offset);
}

}  // namespace inlay::cl
