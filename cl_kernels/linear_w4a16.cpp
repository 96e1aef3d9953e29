#include <inlay/ops/linear_w4a16.hpp>

#include <algorithm>

#include "cl_kernels/linear/experts.hpp"
#include "cl_kernels/linear_w4a16.clh"
#include "cl_kernels/linear_w4a16_tunables.hpp"

namespace inlay::cl {

namespace {

constexpr index block = 128;  // slots: cl_kernels/linear_w4a16.cl

// Rows that share a code in registers.
int tile_of(Cl& cl, const LinearW4a16<Cl>& op) {
  const index rows = rows_of_one(op);
  if (rows == 1) return 1;
  if (!cl.runtime().per_item()) return rows <= 8 ? 4 : 64;
  if (rows <= 4) return 4;
  return op.compute == W4Compute::int8_activations ? cl.runtime().dot().rows : 8;
}

// What `prepare` writes, where it is needed: x in the order of slots, or its steps; of segments the step and the sum;
// which rows are refused.
struct Prepared {
  int tile;
  bool steps, needed;
  index rows = 0, stride = 0, values = 0, places = 0;  // stride: words of values in a row
  Prepared(Cl& cl, const LinearW4a16<Cl>& op)
      : tile(tile_of(cl, op)), steps(op.compute == W4Compute::int8_activations) {
    const bool per_item = cl.runtime().per_item(), tiled = tile == 64;
    needed = per_item || steps || op.perm.present() || tiled;
    if (!needed) return;
    rows = op.x.extents[0];
    // In whole tiles; where rows of a tile lie as they are, one may begin anywhere.
    const index whole = per_item ? chunks_of(op, tile) * tile : tiled ? groups_of(rows, tile) * tile + tile : rows;
    if (!per_item)
      stride = steps ? groups_of(op.slots(), 64) * 16 : groups_of(op.slots(), 16) * 16;
    else if (steps)  // up to whole words of codes
      stride = groups_of(op.slots(), 8) * 2 * cl.runtime().dot().code_bytes;
    else
      stride = groups_of(op.slots(), block) * block;
    values = whole * stride;
    places = whole * (groups_of(op.slots(), block) + op.scales.extents[1]);
  }
};

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const LinearW4a16<Cl>& op) {
  const Prepared size(cl, op);
  return WorkspaceCutter::padded<float>(size.values) + 2 * WorkspaceCutter::padded<float>(size.places) +
         WorkspaceCutter::padded<std::int32_t>(size.rows);
}

template <> Status compute(Cl& cl, const LinearW4a16<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  if (op.y.empty()) return {};
  const index rows = op.x.extents[0], k = op.x.extents[1], n = op.y.extents[1], slots = op.slots();
  const index group = op.group == 0 ? std::max(slots, w4_group_multiple) : op.group, groups = op.scales.extents[1];
  const bool per_item = cl.runtime().per_item(), experts = op.expert_ends.present();
  const Prepared size(cl, op);
  const int tile = size.tile;
  const Dot dot = size.needed ? cl.runtime().dot() : Dot{};
  const bool subnormals = per_item && !size.steps && cl.runtime().subnormal_codes();
  BufferCutter cutter(workspace);
  const BufferArg values = cutter.take<float>(size.values), step = cutter.take<float>(size.places),
                  sums = cutter.take<float>(size.places), marks = cutter.take<std::int32_t>(size.rows);
  const BufferArg refused = op.perm.present() ? marks : BufferArg{};
  if (size.needed) {
    const int lanes = cl.runtime().lanes(32);
    FaultSlot fault = 0;
    if (op.perm.present())
      fault = cl.runtime().fault_slot([k](std::int64_t at, std::int64_t value) {
        return offence<LinearW4a16<Cl>>(invalid("perm[" + std::to_string(at) + "] is " + std::to_string(value) +
                                                "; it must be in -1.." + std::to_string(k - 1)));
      });
    ProgramKey prepare("linear_w4a16");
    if (per_item) dot.define(prepare.flag("SUBNORMALS", subnormals));
    Status prepared =
        launch(cl, prepare.flag("PREPARES", true).number("LANES", lanes).flag("EXPERTS", experts && per_item),
               "prepare", {.groups = {rows}, .lanes = {lanes}},
               LinearW4PrepareArguments{.x_stride = op.x.strides[0],
                                        .expert_ends_stride = op.expert_ends.strides[0],
                                        .rows = rows,
                                        .experts = op.experts(),
                                        .k = k,
                                        .slots = slots,
                                        .group = group,
                                        .groups = groups,
                                        .x_type = static_cast<Int>(op.x.dtype),
                                        .steps = size.steps,
                                        .tile = tile,
                                        .per_word = static_cast<Int>(w4_step_slots(op.bits)),
                                        .spread = op.codebook.present() || op.bits == 5 || op.bits == 6,
                                        .fault = fault},
               {{"x", op.x},
                {"perm", op.perm},
                {"values", values},
                {"segment_step", step},
                {"sum", sums},
                {"refused", marks},
                {"expert_ends", op.expert_ends},
                faults_of(cl)});
    if (!prepared.ok()) return prepared;
  }

  // What a work-item or a group takes: cl_kernels/linear/w4_*.clh.
  const int lanes = tile > 4 ? cl.runtime().lanes(256) : cl.runtime().lanes(linear_w4a16_lanes);
  const index many = !per_item ? 4 : size.steps ? dot.panels : 2;
  const index chunk = per_item && tile > 4 ? 4 * tile : tile;
  const index panels = tile > 4 ? many : !per_item ? 1 : tile == 4 ? 4 : 6;
  ProgramKey product("linear_w4a16");
  if (size.steps) dot.define(product);
  product.number("LANES", lanes)
      .number("BITS", static_cast<long>(op.bits))
      .type("S", op.scales.dtype)
      .number("ROWS", tile)
      .flag("EXPERTS", experts)
      .flag("STEPS", size.steps)
      .flag("SUBNORMALS", subnormals)
      .flag("CODEBOOK", op.codebook.present())
      .flag("UNITS", op.super_scales.present())
      .flag("ALIGNED", aligned(cl, op.x, op.scales, op.zeros, op.offsets, op.super_scales, op.super_offsets) &&
                           misalignment(cl, op.codes) % 16 == 0);
  const Grid grid{.groups = {chunks_of(op, chunk), groups_of(n, panels * w4_panel)}, .lanes = {lanes}};
  const auto& other = op.offsets.present() ? op.offsets : op.zeros;
  enum { form_none = -1, form_zeros, form_offsets };  // linear_w4a16.cl
  const auto run = [&](const auto& x, index stride, DType type) {
    return launch(cl, product, "product", grid,
                  LinearW4Arguments{.x_stride = stride,
                                    .y_stride = op.y.strides[0],
                                    .expert_ends_stride = op.expert_ends.strides[0],
                                    .rows = rows,
                                    .experts = op.experts(),
                                    .n = n,
                                    .slots = slots,
                                    .group = group,
                                    .groups = groups,
                                    .x_type = static_cast<Int>(type),
                                    .other_type = static_cast<Int>(other.dtype),
                                    .form = op.offsets.present() ? form_offsets
                                            : op.zeros.present() ? form_zeros
                                                                 : form_none,
                                    .bias_type = static_cast<Int>(op.bias.dtype),
                                    .y_type = static_cast<Int>(op.y.dtype),
                                    .fault = expert_fault_slot(cl, op)},
                  {{"x", x},
                   {"segment_step", step},
                   {"sums", sums},
                   {"refused", refused},
                   {"codes", op.codes},
                   {"scales", op.scales},
                   {"other", other},
                   {"codebook", op.codebook},
                   {"bias", op.bias},
                   {"y", op.y},
                   {"expert_ends", op.expert_ends},
                   {"super_scales", op.super_scales},
                   {"super_offsets", op.super_offsets},
                   faults_of(cl)});
  };
  return size.needed ? run(values, size.stride, DType::f32) : run(op.x, op.x.strides[0], op.x.dtype);
}

}  // namespace inlay::cl
