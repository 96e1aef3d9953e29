#include <inlay/ops/linear.hpp>

#include "cl_kernels/linear.clh"
#include "cl_kernels/linear_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

namespace {

constexpr index tile_rows = 8, block = 192;  // of packed x: cl_kernels/linear/float_per_item.clh

index packed_x(const Linear<Cl>& op) {
  return groups_of(op.x.extents[0], tile_rows) * groups_of(op.x.extents[1], block) * tile_rows * block;
}
bool packs(Cl& cl, const Linear<Cl>& op) { return cl.runtime().per_item() && op.x.extents[0] > 4; }

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const Linear<Cl>& op) {
  return packs(cl, op) ? WorkspaceCutter::padded<float>(packed_x(op)) : 0;
}

template <> Status compute(Cl& cl, const Linear<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  if (op.y.empty()) return {};
  const index rows = op.x.extents[0], k = op.x.extents[1], n = op.y.extents[1];
  const bool per_item = cl.runtime().per_item(), packed = op.weight.present();
  const DType weight = packed ? op.weight.dtype : op.weight_rows.dtype;
  // What a work-item or a group takes: cl_kernels/linear/float_*.clh.
  const int tile = rows == 1 ? 1 : rows <= 4 ? 4 : 8;
  const bool many = tile == 8, one_tile = per_item && packed && many && rows <= tile;
  const index lanes = per_item ? 1 : many ? 128 : cl.runtime().lanes(linear_lanes);
  const index chunk = !many || one_tile ? tile : per_item ? 32 : 64;
  const index channels = linear_panel * (!many && packed ? (per_item ? 4 : 1) : per_item ? 2 : many ? 4 : 1);
  const bool are_bf16 = op.x.dtype == DType::bf16 && weight == DType::bf16;
  const ProgramKey key = ProgramKey("linear")
                             .type("W", weight)
                             .flag("PACKED", packed)
                             .number("ROWS", tile)
                             .flag("ONE_TILE", one_tile)
                             .number("LANES", lanes)
                             .flag("ROUNDED", op.compute == LinearCompute::bf16_products && !are_bf16)
                             .flag("ALIGNED", aligned(cl, op.x, op.weight, op.weight_rows));
  const Grid grid{.groups = {groups_of(rows, chunk), groups_of(n, channels)}, .lanes = {lanes}};
  const int x_type = static_cast<int>(op.x.dtype);
  const auto run = [&](const auto& weights, index stride, const BufferArg& packed_x) {
    const LinearArguments arguments{.x_stride = op.x.strides[0],
                                    .weight_stride = stride,
                                    .y_stride = op.y.strides[0],
                                    .rows = rows,
                                    .n = n,
                                    .k = k,
                                    .x_type = x_type,
                                    .bias_type = static_cast<Int>(op.bias.dtype),
                                    .y_type = static_cast<Int>(op.y.dtype)};
    return launch(cl, key, "linear", grid, arguments,
                  {{"x", op.x}, {"weight", weights}, {"bias", op.bias}, {"y", op.y}, {"packed", packed_x}});
  };
  BufferArg x;
  if (packs(cl, op)) {
    x = BufferCutter(workspace).take<float>(packed_x(op));
    if (k > 0) {
      Status done = launch(cl, key, "pack", {.groups = {rows, groups_of(k, block)}, .lanes = {1}},
                           LinearPackArguments{.x_stride = op.x.strides[0], .k = k, .x_type = x_type},
                           {{"x", op.x}, {"packed", x}});
      if (!done.ok()) return done;
    }
  }
  return packed ? run(op.weight, index{0}, x) : run(op.weight_rows, op.weight_rows.strides[0], x);
}

}  // namespace inlay::cl
