#include <inlay/ops/linear_int8.hpp>

#include "cl_kernels/linear/experts.hpp"
#include "cl_kernels/linear_int8.clh"
#include "cl_kernels/linear_int8_tunables.hpp"

namespace inlay::cl {

namespace {

constexpr index of_token = 4;  // words: cl_kernels/linear_int8.cl

// Of q, for one token.
index padded_k(Cl& cl, const LinearInt8<Cl>& op) {
  return cl.runtime().per_item() ? op.weight.extents[1] * linear_int8::group : groups_of(op.x.extents[1], 64) * 64;
}
// Tokens that a weight is multiplied with in registers, or the tile of a group.
int tile_of(Cl& cl, const LinearInt8<Cl>& op) {
  const index rows = rows_of_one(op);
  if (rows == 1) return 1;
  if (cl.runtime().per_item()) return rows <= 4 ? 4 : cl.runtime().dot().rows;
  return rows <= 8 ? 4 : 64;
}
int code_bytes(Cl& cl) { return cl.runtime().per_item() ? cl.runtime().dot().code_bytes : 1; }
// Tokens that lie side by side in q.
int q_tile(Cl& cl, const LinearInt8<Cl>& op) { return cl.runtime().per_item() ? tile_of(cl, op) : 1; }
index q_bytes(Cl& cl, const LinearInt8<Cl>& op) {
  const index tile = q_tile(cl, op);
  return chunks_of(op, tile) * tile * padded_k(cl, op) * code_bytes(cl);
}
index clipped_size(Cl& cl, const LinearInt8<Cl>& op) {
  return op.shadow_outliers ? op.x.extents[0] * padded_k(cl, op) * 2 : 0;
}
// Of a view of one element or one for each token or channel.
index stride(const ConstView<1, Cl>& view) { return view.present() && view.extents[0] > 1 ? view.strides[0] : 0; }

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const LinearInt8<Cl>& op) {
  return WorkspaceCutter::padded<std::int8_t>(q_bytes(cl, op)) + WorkspaceCutter::padded<float>(clipped_size(cl, op)) +
         WorkspaceCutter::padded<std::int32_t>(op.x.extents[0] * of_token);
}

template <> Status compute(Cl& cl, const LinearInt8<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  if (op.y.empty()) return {};
  const index rows = op.x.extents[0], k = op.x.extents[1], n = op.y.extents[1];
  const bool per_item = cl.runtime().per_item(), experts = op.expert_ends.present();
  const int tile = tile_of(cl, op);
  BufferCutter cutter(workspace);
  BufferArg q = cutter.take<std::int8_t>(q_bytes(cl, op));
  q.element_bits = 8 * code_bytes(cl);
  q.element = cl.runtime().per_item() ? cl.runtime().dot().code_name() : "char";
  const BufferArg clipped = cutter.take<float>(clipped_size(cl, op)),
                  tokens = cutter.take<std::int32_t>(rows * of_token);
  const int lanes = cl.runtime().lanes();
  const Dot& dot = cl.runtime().dot();
  BufferArg x_zero = buffer_of(op.x_zero);
  BufferArg y_zero = buffer_of(op.y_zero);
  x_zero.element = y_zero.element = "char";  // the kernel takes the bits of u8 as they are
  ProgramKey prepare("linear_int8");
  dot.define(prepare)
      .number("LANES", lanes)
      .flag("EXPERTS", experts && per_item)
      .type("X", op.x.dtype)
      .flag("ALIGNED", aligned(cl, op.x));
  Status prepared = launch(cl, prepare, "prepare", {.groups = {rows}, .lanes = {lanes}},
                           LinearInt8PrepareArguments{.x_stride = op.x.strides[0],
                                                      .x_scale_stride = stride(op.x_scale),
                                                      .x_zero_stride = stride(op.x_zero),
                                                      .expert_ends_stride = op.expert_ends.strides[0],
                                                      .rows = rows,
                                                      .experts = op.experts(),
                                                      .k = k,
                                                      .asymmetric = op.asymmetric,
                                                      .shadow = op.shadow_outliers,
                                                      .tile = q_tile(cl, op)},
                           {{"x", op.x},
                            {"x_scale", op.x_scale},
                            {"x_zero", x_zero},
                            {"q", q},
                            {"clipped", clipped},
                            {"tokens", tokens},
                            {"expert_ends", op.expert_ends}});
  if (!prepared.ok()) return prepared;

  // What a work-item or a group takes: cl_kernels/linear/int8_*.clh.
  const index chunk = per_item && tile > 4 ? 4 * tile : tile;
  const index panels = tile > 4 ? (per_item ? dot.panels : 4) : per_item ? 4 : 1;
  const int sharing = tile > 4 ? cl.runtime().lanes(128) : cl.runtime().lanes(linear_int8_lanes);
  ProgramKey product("linear_int8");
  dot.define(product).number("LANES", sharing).number("ROWS", tile).flag("EXPERTS", experts);
  product.flag("ALIGNED", !per_item && misalignment(cl, op.weight) % 16 == 0);
  const Grid grid{.groups = {chunks_of(op, chunk), groups_of(n, panels * linear_int8::panel)}, .lanes = {sharing}};
  return launch(cl, product, "product", grid,
                LinearInt8Arguments{.weight_scale_stride = stride(op.weight_scale),
                                    .weight_zero_stride = stride(op.weight_zero),
                                    .y_stride = op.y.strides[0],
                                    .expert_ends_stride = op.expert_ends.strides[0],
                                    .rows = rows,
                                    .experts = op.experts(),
                                    .n = n,
                                    .k = k,
                                    .bias_type = static_cast<Int>(op.bias.dtype),
                                    .y_type = static_cast<Int>(op.y.dtype),
                                    .fault = expert_fault_slot(cl, op)},
                {{"q", q},
                 {"clipped", clipped},
                 {"tokens", tokens},
                 {"weight", op.weight},
                 {"weight_sum", op.weight_sum},
                 {"weight_scale", op.weight_scale},
                 {"weight_zero", op.weight_zero},
                 {"bias", op.bias},
                 {"y", op.y},
                 {"y_scale", op.y_scale},
                 {"y_zero", y_zero},
                 {"expert_ends", op.expert_ends},
                 faults_of(cl)});
}

}  // namespace inlay::cl
