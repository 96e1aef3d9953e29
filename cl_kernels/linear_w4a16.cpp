#include <inlay/ops/linear_w4a16.hpp>

#include <algorithm>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

namespace {

constexpr index block = 128;  // slots: cl_kernels/linear_w4a16.cl

// What `prepare` writes, where it is needed: x in the order of slots, or in steps; steps and their sums; refused rows.
struct Prepared {
  index rows, values, places;
  bool steps;
  explicit Prepared(const LinearW4a16<Cl>& op)
      : rows(op.x.extents[0]),
        values(rows * op.slots()),
        places(rows * (groups_of(op.slots(), block) + op.scales.extents[1])),
        steps(op.compute == W4Compute::int8_activations) {}
  static bool needed(const LinearW4a16<Cl>& op) {
    return op.perm.present() || op.compute == W4Compute::int8_activations;
  }
};

}  // namespace

template <> std::size_t scratch_bytes(Cl&, const LinearW4a16<Cl>& op) {
  if (!Prepared::needed(op)) return 0;
  const Prepared size(op);
  return WorkspaceCutter::padded<float>(size.values) + 2 * WorkspaceCutter::padded<float>(size.places) +
         WorkspaceCutter::padded<std::int32_t>(size.rows);
}

template <> Status compute(Cl& cl, const LinearW4a16<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  if (op.y.empty()) return {};
  const index rows = op.x.extents[0], k = op.x.extents[1], n = op.y.extents[1], slots = op.slots();
  const index group = op.group == 0 ? std::max(slots, w4_group_multiple) : op.group, groups = op.scales.extents[1];
  const bool cpu = cl.runtime().cpu_shape(), needed = Prepared::needed(op);
  const Prepared size(op);
  PartCutter cutter(needed ? workspace : SpaceWorkspace<Cl>{});
  const auto part = [&]<class T>(T, index count) { return needed ? cutter.take<T>(count) : Part{{}, sizeof(T)}; };
  const Part values = part(0.0F, size.values), step = part(0.0F, size.places), sum = part(0.0F, size.places),
             refused = part(std::int32_t{}, size.rows);
  if (needed) {
    const int lanes = cl.runtime().lanes(32);
    const Place place = cl.runtime().place([k](std::int64_t at, std::int64_t value) {
      return offence<LinearW4a16<Cl>>(invalid("perm[" + std::to_string(at) + "] is " + std::to_string(value) +
                                              "; it must be in -1.." + std::to_string(k - 1)));
    });
    Status prepared = launch(cl, Variant("linear_w4a16").flag("PREPARES", true).number("LANES", lanes), "prepare",
                             {.groups = {rows}, .lanes = {lanes}}, op.x, op.x.strides[0],
                             static_cast<int>(op.x.dtype), op.perm, values, step, sum, refused, k, slots, group,
                             groups, size.steps, place);
    if (!prepared.ok()) return prepared;
  }

  // What a work-item (cpu) or a group (gpu) takes: cl_kernels/linear/w4_*.clh.
  const int tile = rows == 1 ? 1 : rows <= 4 || !cpu ? 4 : 8, lanes = cl.runtime().lanes(128);
  const index chunk = tile == 8 ? 32 : tile, panels = !cpu ? 1 : tile == 8 ? 2 : 4;
  const Variant product = Variant("linear_w4a16")
                              .number("LANES", lanes)
                              .number("BITS", static_cast<long>(op.bits))
                              .type("S", op.scales.dtype)
                              .number("ROWS", tile)
                              .flag("STEPS", size.steps)
                              .flag("ALIGNED", aligned(cl, op.scales, op.zeros, op.offsets) && op.codes.data.offset % 16 == 0);
  const Grid grid{.groups = {groups_of(rows, chunk), groups_of(n, panels * w4_panel)}, .lanes = {lanes}};
  const auto run = [&](const auto& x, index stride, DType type) {
    const bool zeros = op.zeros.present(), offsets = op.offsets.present();
    const auto& other = offsets ? op.offsets : op.zeros;
    return launch(cl, product, "product", grid, x, stride, static_cast<int>(type), step, sum, refused, op.codes,
                  op.scales, other, static_cast<int>(other.dtype), offsets ? 1 : zeros ? 0 : -1, op.bias,
                  static_cast<int>(op.bias.dtype), op.y, op.y.strides[0], static_cast<int>(op.y.dtype), rows, n, slots,
                  group, groups);
  };
  return needed ? run(values, slots, DType::f32) : run(op.x, op.x.strides[0], op.x.dtype);
}

}  // namespace inlay::cl
