#include <inlay/ops/skeleton.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

// A kernel that needs device memory of its own says here how much, and cuts it with PartCutter.
template <> std::size_t scratch_bytes(Cl&, const Skeleton<Cl>&) { return 0; }

// Only structure is defined in a Variant: types, tiles, what is there. Lengths, strides and numbers are arguments.
template <> Status compute(Cl& cl, const Skeleton<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes();
  const Variant variant = Variant("skeleton")
                              .number("LANES", lanes)
                              .type("T", op.x.dtype)
                              .flag("ALIGNED", aligned(cl, op.x, op.intercept, op.y));
  return launch(cl, variant, "skeleton", {.groups = {op.x.extents[0]}, .lanes = {lanes}}, op.x, op.x.strides[0],
                op.intercept, op.y, op.y.strides[0], op.x.extents[1], op.slope);
}

}  // namespace inlay::cl
