#include <inlay/ops/add.hpp>

#include "cl_kernels/add.clh"
#include "cl_kernels/add_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Add<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Add<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(add_lanes);
  const ProgramKey key = ProgramKey("add")
                             .number("LANES", lanes)
                             .number("WIDTH", cl.runtime().tuned(add_width))
                             .type("A", op.a.dtype)
                             .type("B", op.b.dtype)
                             .flag("ALIGNED", aligned(cl, op.a, op.b, op.y));
  return launch(cl, key, "add", {.groups = {op.a.extents[0]}, .lanes = {lanes}},
                AddArguments{.a_stride = op.a.strides[0],
                             .b_stride = op.b.extents[0] == 1 ? index{0} : op.b.strides[0],
                             .y_stride = op.y.strides[0],
                             .dim = op.a.extents[1]},
                {{"a", op.a}, {"b", op.b}, {"y", op.y}});
}

}  // namespace inlay::cl
