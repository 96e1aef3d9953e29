// y = x w^T + bias: x and w as f16, in one part where that is exact, in two halves where they are f32 (layout.hpp).
//
//   vector   x, w -> halves, fractal        what is f16, or bf16 on both sides, goes as it is, or is made fractal only:
//                                           w as it is used (layout.hpp)
//   --- all cores meet ---
//   load -> feed -> matrix -> drain         each pair of parts (products.hpp)
//   vector   sums of pairs, powers of rows and channels, bias, rounding -> y (epilogue.hpp)
#include <inlay/ops/linear.hpp>

#include <algorithm>

#include "npu_kernels/backend/features.hpp"
#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/linear/epilogue.hpp"
#include "npu_kernels/linear/layout.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

DType weight_type(const Linear<Host>& op) { return op.weight.present() ? op.weight.dtype : op.weight_rows.dtype; }

// The packed weight as words of 16 channels: pairs of bf16 are words of 32 bits.
RowSource weight_of(GlobalMemory& memory, const Linear<Host>& op) {
  const index n = op.y.extents[1], k = op.x.extents[1];
  if (op.weight_rows.present())
    return {.rows = memory.bind("weight_rows", op.weight_rows), .dtype = op.weight_rows.dtype, .count = n, .depth = k};
  ConstView<3> words = op.weight;
  if (words.dtype == DType::bf16)
    words = {op.weight.data, DType::i32, {words.extents[0], words.extents[1], panel_rows}};
  return {.panels = memory.bind("weight", words), .dtype = op.weight.dtype, .count = n, .depth = k};
}

DType unit_of(const Device& device, DType x, DType w) {
  const bool bf16 = x == DType::bf16 && w == DType::bf16 && device.rate(DType::bf16, DType::f32) != nullptr;
  return bf16 ? DType::bf16 : DType::f16;
}

// Both sides, before they are planned, and of w its form once it has been packed.
struct Sides {
  RowSource w = {};
  Prepared left = {}, right = {};
  Products products = {};
  BlockForm form = {};
};

Sides sides_of(GlobalMemory& memory, const Linear<Host>& op, const Choices& choices) {
  const Device& device = memory.device();
  const index m = op.x.extents[0], n = op.y.extents[1], k = op.x.extents[1];
  const RowSource x{.rows = memory.bind("x", op.x), .dtype = op.x.dtype, .count = m, .depth = k};
  Sides s{.w = weight_of(memory, op)};
  const DType unit = unit_of(device, x.dtype, s.w.dtype);
  const auto parts_of = [&](const RowSource& source) -> std::size_t {
    return source.dtype == DType::f32 && choices.activations == NpuActivations::exact ? 2 : 1;
  };
  s.left = operand_of(memory, "x", x, unit, parts_of(x), n / 256);
  s.products = {.left = s.left.parts, .right = {}, .sum = DType::f32, .segments = {{0, k}}};
  if (parts_of(x) == 1 && parts_of(s.w) == 1) cut(s.products, device, unit);
  s.form = {.unit = unit, .parts = parts_of(s.w), .scaled = s.w.dtype != unit};
  if (choices.packed != nullptr) {
    s.right = packed_blocks(memory, s.w, s.form, choices.packed);
    return s;
  }
  // One part of the unit's type that has to be laid out anew may be so as it is used.
  const bool anew = !lies_well(device, s.w, unit, m / 128) || made_sooner(device, memory.cores(), s.products, s.w);
  s.right = s.w.dtype == unit && anew && s.left.parts.size() == 1
                ? laid_out(memory, "w", s.w, s.products)
                : operand_of(memory, "w", s.w, unit, parts_of(s.w), m / 128);
  return s;
}

}  // namespace

Status declined(const Device& device, const Linear<Host>& op) {
  const bool are_bf16 = op.x.dtype == DType::bf16 && weight_type(op) == DType::bf16;
  if (op.compute != LinearCompute::exact_float && !are_bf16)
    return unsupported("bf16_products of other operands than bf16 x and w are the CPU's");
  return lacks_products(device, unit_of(device, op.x.dtype, weight_type(op)), DType::f32);
}

WeightForm weight_form(const Device& device, const Linear<Host>& op) {
  const DType unit = unit_of(device, op.x.dtype, weight_type(op));
  return op.weight.present() ? form_of(op.weight, unit) : form_of(op.weight_rows, unit);
}

Packing packing(GlobalMemory& memory, const Linear<Host>& op, const Choices& choices) {
  const Sides sides = sides_of(memory, op, choices);
  if (op.x.extents[1] == 0 || sides.right.given() || !sides.right.parts.front().blocked()) return {};
  return packing_of(sides.w, sides.form, memory.device(), [op](GlobalMemory& to) { return weight_of(to, op); });
}

Program program(GlobalMemory& memory, const Linear<Host>& op, const Choices& choices) {
  const index m = op.x.extents[0], n = op.y.extents[1], k = op.x.extents[1];
  const Sides s = sides_of(memory, op, choices);
  Layer layer{.left = s.left, .right = s.right, .result = {.y = memory.bind("y", op.y, Use::out), .powers = true}};
  layer.result.bias = memory.bind_optional("bias", op.bias);
  if (k > 0) layer.result.row_scale = s.left.powers(), layer.result.column_scale = s.right.powers();
  layer.plan = plan_products(memory, s.products, s.right);
  const index bytes = byte_size(op.x.dtype, m * k) + byte_size(s.w.dtype, n * k) + byte_size(op.y.dtype, m * n);
  return layer_program(memory, layer, bytes, [layer](Core& core) { multiply_layer(core, layer); });
}

template struct Operator<Linear<Host>>;

}  // namespace inlay::npu
