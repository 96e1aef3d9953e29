#include <inlay/ops/add.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Add<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Add<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(Tunable::add_lanes);
  const Variant variant = Variant("add")
                              .number("LANES", lanes)
                              .number("WIDTH", cl.runtime().tuned(Tunable::add_width))
                              .type("A", op.a.dtype)
                              .type("B", op.b.dtype)
                              .flag("ALIGNED", aligned(cl, op.a, op.b, op.y));
  return launch(cl, variant, "add", {.groups = {op.a.extents[0]}, .lanes = {lanes}}, op.a, op.a.strides[0], op.b,
                op.b.extents[0] == 1 ? index{0} : op.b.strides[0], op.y, op.y.strides[0], op.a.extents[1]);
}

}  // namespace inlay::cl
