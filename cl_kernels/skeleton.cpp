#include <inlay/ops/skeleton.hpp>

#include "cl_kernels/runtime/launch.hpp"
#include "cl_kernels/skeleton.clh"

namespace inlay::cl {

// A kernel that needs device memory of its own says here how much, and cuts it with BufferCutter.
template <> std::size_t scratch_bytes(Cl&, const Skeleton<Cl>&) { return 0; }

// Only structure is defined in a ProgramKey: types, tiles, what is there. Lengths, strides and numbers are members
// of the struct that skeleton.clh shows to host and device.
template <> Status compute(Cl& cl, const Skeleton<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes();
  const ProgramKey key = ProgramKey("skeleton")
                             .number("LANES", lanes)
                             .type("T", op.x.dtype)
                             .flag("ALIGNED", aligned(cl, op.x, op.intercept, op.y));
  return launch(
      cl, key, "skeleton", {.groups = {op.x.extents[0]}, .lanes = {lanes}},
      SkeletonArguments{
          .x_stride = op.x.strides[0], .y_stride = op.y.strides[0], .dim = op.x.extents[1], .slope = op.slope},
      {{"x", op.x}, {"intercept", op.intercept}, {"y", op.y}});
}

}  // namespace inlay::cl
