// y = x w^T + bias with w in codes of four to eight bits.
//
//   exact_float       vector  x -> halves, codes as they are (w4_groups.hpp)
//   int8_activations  vector  x -> bytes of each segment, codes as they are (w4_groups.hpp)
//   activations f16   vector  codes -> w in f16 (w4_weight.hpp), x -> f16
//   --- all cores meet ---
//   load -> feed -> matrix -> drain        f16 -> f32, each group or all of the depth
//   vector   scales, powers; bias, rounding -> y
#include <inlay/ops/linear_w4a16.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "npu_kernels/backend/features.hpp"
#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/linear/epilogue.hpp"
#include "npu_kernels/linear/layout.hpp"
#include "npu_kernels/linear/w4_groups.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

std::function<void(Core&)> in_groups(GlobalMemory& memory, const RowSource& x, const W4Weight& weight,
                                     const LinearResult& result, bool bytes) {
  return [op = w4_groups(memory, x, weight, result, bytes)](Core& core) { multiply_w4_groups(core, op); };
}

// x and w rounded to f16 once.
std::function<void(Core&)> in_f16(GlobalMemory& memory, const RowSource& x, const W4Weight& weight,
                                  LinearResult result) {
  const Device& device = memory.device();
  constexpr index no_tiles =
      0;  // w is made for few tiles: blocks of x cost a meeting of the cores that they do not spare
  const Prepared left = operand_of(memory, "x", x, DType::f16, 1, no_tiles);
  Products products{.left = left.parts,
                    .right = {{.rows = weight.codes.count, .depth = x.depth, .dtype = DType::f16}},
                    .sum = DType::f32,
                    .segments = {{0, x.depth}},
                    .source_bits = weight.bits,
                    .making_bytes = dequantized_bytes(device, weight),
                    .making_depth = weight.group,
                    .making_passes = dequantized_passes(device, weight)};
  cut(products, device, DType::f16);
  const Prepared w = laid_out(memory, "w", dequantized(weight), products);
  if (x.depth > 0) result.row_scale = left.powers();
  return
      [layer = Layer{left, w, plan_products(memory, products, w), result}](Core& core) { multiply_layer(core, layer); };
}

std::uint64_t bytes_of(const LinearW4a16<Host>& op) {
  const auto all = [](const auto& view) { return view.present() ? byte_size(view.dtype, view.size()) : index{0}; };
  return static_cast<std::uint64_t>(all(op.x) + all(op.codes) + all(op.scales) + all(op.zeros) + all(op.offsets) +
                                    all(op.super_scales) + all(op.super_offsets) + all(op.codebook) + all(op.perm) +
                                    all(op.bias) + all(op.y));
}

}  // namespace

// Codes are put in order word by word within a block (w4_weight.hpp).
Status declined(const Device& device, const LinearW4a16<Host>& op) {
  if (Status status = lacks_products(device, DType::f16, DType::f32); !status.ok()) return status;
  const index block = device.fractal_block(DType::f16), codes = w4_step_slots(op.bits);
  if (block % codes == 0 && std::has_single_bit(static_cast<std::uint64_t>(block / codes))) return {};
  return unsupported(device.name + " multiplies f16 in steps of k = " + std::to_string(block) + "; for codes of " +
                     std::to_string(op.bits) + " bits k must be " + std::to_string(codes) + " times a power of two");
}

Program program(GlobalMemory& memory, const LinearW4a16<Host>& op, const Choices& choices) {
  const index m = op.x.extents[0], n = op.y.extents[1], slots = op.slots();
  W4Slots order{.x = {.rows = memory.bind("x", op.x), .dtype = op.x.dtype, .count = m, .depth = op.x.extents[1]}};
  RowSource x = order.x;
  x.depth = slots;
  const bool permuted = op.perm.present() && slots > 0;
  if (permuted) {
    order.perm = memory.bind("perm", op.perm);
    order.slots = memory.workspace("x by slots", {m, slots}, DType::f32);
    x = {.rows = by_axes(order.slots), .dtype = DType::f32, .count = m, .depth = slots};
  }
  const W4Weight weight = w4_weight(memory, op);
  LinearResult result{.y = memory.bind("y", op.y, Use::out), .powers = true};
  result.bias = memory.bind_optional("bias", op.bias);

  const bool bytes = op.compute == W4Compute::int8_activations;
  const bool f16 = choices.activations == NpuActivations::f16 && !bytes;
  const auto rest = f16 ? in_f16(memory, x, weight, result) : in_groups(memory, x, weight, result, bytes);
  const auto body = [=](Core& core) {
    if (permuted) {
      make_slots(core, order);
      core.sync_all();
    }
    rest(core);
  };
  const auto operations = static_cast<std::uint64_t>(2 * m * n * slots);
  return {.body = body,
          .problem = {bytes_of(op), {{DType::f16, DType::f32, operations}}},
          .launch = {.cores = cores_of_layer(memory, m, n, slots, 1)}};
}

template struct Operator<LinearW4a16<Host>>;

}  // namespace inlay::npu
