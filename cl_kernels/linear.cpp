#include <inlay/ops/linear.hpp>

#include "cl_kernels/linear.clh"
#include "cl_kernels/linear/experts.hpp"
#include "cl_kernels/linear_tunables.hpp"

namespace inlay::cl {

namespace {

constexpr index tile_rows = 8, block = 192;  // of packed x: cl_kernels/linear/float_per_item.clh

index packed_x(const Linear<Cl>& op) {
  return chunks_of(op, tile_rows) * groups_of(op.x.extents[1], block) * tile_rows * block;
}
bool packs(Cl& cl, const Linear<Cl>& op) { return cl.runtime().per_item() && rows_of_one(op) > 4; }

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const Linear<Cl>& op) {
  return packs(cl, op) ? WorkspaceCutter::padded<float>(packed_x(op)) : 0;
}

template <> Status compute(Cl& cl, const Linear<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  if (op.y.empty()) return {};
  const index rows = op.x.extents[0], k = op.x.extents[1], n = op.y.extents[1], of_one = rows_of_one(op);
  const bool experts = op.expert_ends.present();
  const bool per_item = cl.runtime().per_item(), packed = op.weight.present();
  const DType weight = packed ? op.weight.dtype : op.weight_rows.dtype;
  // What a work-item or a group takes: cl_kernels/linear/float_*.clh.
  const int tile = of_one == 1 ? 1 : of_one <= 4 ? 4 : 8;
  const bool many = tile == 8, one_tile = per_item && packed && many && of_one <= tile;
  const index lanes = per_item ? 1 : many ? 128 : cl.runtime().lanes(linear_lanes);
  const index chunk = !many || one_tile ? tile : per_item ? 32 : 64;
  const index channels = linear_panel * (!many && packed ? (per_item ? 4 : 1) : per_item ? 2 : many ? 4 : 1);
  const bool are_bf16 = op.x.dtype == DType::bf16 && weight == DType::bf16;
  const ProgramKey key = ProgramKey("linear")
                             .type("W", weight)
                             .flag("PACKED", packed)
                             .number("ROWS", tile)
                             .flag("ONE_TILE", one_tile)
                             .flag("EXPERTS", experts)
                             .number("LANES", lanes)
                             .flag("ROUNDED", op.compute == LinearCompute::bf16_products && !are_bf16)
                             .flag("ALIGNED", aligned(cl, op.x, op.weight, op.weight_rows));
  const Grid grid{.groups = {chunks_of(op, chunk), groups_of(n, channels)}, .lanes = {lanes}};
  const int x_type = static_cast<int>(op.x.dtype);
  const auto run = [&](const auto& weights, index stride, const BufferArg& packed_x) {
    const LinearArguments arguments{.x_stride = op.x.strides[0],
                                    .weight_stride = stride,
                                    .y_stride = op.y.strides[0],
                                    .expert_ends_stride = op.expert_ends.strides[0],
                                    .rows = rows,
                                    .experts = op.experts(),
                                    .n = n,
                                    .k = k,
                                    .x_type = x_type,
                                    .bias_type = static_cast<Int>(op.bias.dtype),
                                    .y_type = static_cast<Int>(op.y.dtype),
                                    .fault = expert_fault_slot(cl, op)};
    return launch(cl, key, "linear", grid, arguments,
                  {{"x", op.x},
                   {"weight", weights},
                   {"bias", op.bias},
                   {"y", op.y},
                   {"packed", packed_x},
                   {"expert_ends", op.expert_ends},
                   faults_of(cl)});
  };
  BufferArg x;
  if (packs(cl, op)) {
    x = BufferCutter(workspace).take<float>(packed_x(op));
    if (k > 0) {
      Status done = launch(cl, key, "pack", {.groups = {rows, groups_of(k, block)}, .lanes = {1}},
                           LinearPackArguments{.x_stride = op.x.strides[0],
                                               .expert_ends_stride = op.expert_ends.strides[0],
                                               .rows = rows,
                                               .experts = op.experts(),
                                               .k = k,
                                               .x_type = x_type},
                           {{"x", op.x}, {"packed", x}, {"expert_ends", op.expert_ends}});
      if (!done.ok()) return done;
    }
  }
  return packed ? run(op.weight, index{0}, x) : run(op.weight_rows, op.weight_rows.strides[0], x);
}

}  // namespace inlay::cl
