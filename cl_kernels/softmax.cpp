#include <inlay/ops/softmax.hpp>

#include "cl_kernels/runtime/launch.hpp"
#include "cl_kernels/softmax.clh"
#include "cl_kernels/softmax_tunables.hpp"

namespace inlay::cl {

namespace {

struct Pair {
  float max, sum;
};

// What softmax.cl calls them.
enum class Mask : int { none, hidden, added_f32, added };

Mask mask_of(const Softmax<Cl>& op) {
  if (!op.mask.present()) return Mask::none;
  return op.mask.dtype == DType::boolean ? Mask::hidden : op.mask.dtype == DType::f32 ? Mask::added_f32 : Mask::added;
}

index piece_of(const Cl& cl) { return cl.runtime().tuned(softmax_piece); }

index pieces_of(const Cl& cl, const Softmax<Cl>& op) { return groups_of(op.x.extents[2], piece_of(cl)); }

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const Softmax<Cl>& op) {
  const index pieces = pieces_of(cl, op);
  return pieces <= 1 ? 0 : WorkspaceCutter::padded<Pair>(op.x.extents[0] * op.x.extents[1] * pieces);
}

template <> Status compute(Cl& cl, const Softmax<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const int lanes = cl.runtime().lanes(op.x.extents[2] <= 512 ? softmax_short_lanes : softmax_lanes);
  const index heads = op.x.extents[0], rows = op.x.extents[1], pieces = pieces_of(cl, op);
  const ProgramKey key = ProgramKey("softmax")
                             .number("LANES", lanes)
                             .number("WIDTH", cl.runtime().tuned(softmax_width))
                             .type("X", op.x.dtype)
                             .type("Y", op.y.dtype)
                             .flag("STORED", cl.runtime().per_item() && op.y.dtype == DType::f32 && !op.log)
                             .flag("ALIGNED", aligned(cl, op.x, op.mask, op.y));
  const BufferArg pairs =
      pieces <= 1 ? BufferArg{} : BufferCutter(workspace).take<Pair>(heads * rows * pieces, "float2");
  const auto kernel = [&](const char* name) {
    return launch(cl, key, name, {.groups = {rows, heads, pieces}, .lanes = {lanes}},
                  SoftmaxArguments{.x_head = op.x.strides[0],
                                   .x_row = op.x.strides[1],
                                   .mask_head = op.mask.extents[0] == 1 ? index{0} : op.mask.strides[0],
                                   .mask_row = op.mask.extents[1] == 1 ? index{0} : op.mask.strides[1],
                                   .n = op.x.extents[2],
                                   .piece = piece_of(cl),
                                   .y_head = op.y.strides[0],
                                   .y_row = op.y.strides[1],
                                   .mask_kind = static_cast<Int>(mask_of(op)),
                                   .logarithm = op.log,
                                   .scale = op.scale},
                  {{"x", op.x}, {"mask", op.mask}, {"y", op.y}, {"pairs", pairs}, {"sink", op.sink}});
  };
  if (pieces <= 1) return kernel("softmax");
  if (Status status = kernel("softmax_reduce"); !status.ok()) return status;
  return kernel("softmax_emit");
}

}  // namespace inlay::cl
