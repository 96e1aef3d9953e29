// y = (sum (q - x_zero) (w - weight_zero)) scales + bias, in int8 on the matrix unit.
//
//   vector   x -> q, scale, shift, rest of each row                      (int8_rows.hpp)
//   --- all cores meet ---                                               unless x is multiplied as it lies
//   vector   w: panels -> fractal blocks, as they are needed             (layout.hpp), unless it has been packed
//            shadow outliers: clipped parts of x times differences of w, in f16
//   load -> feed -> matrix (i8 -> i32) -> drain                          (products.hpp)
//   vector   zero points, scales, bias, rounding -> y (epilogue.hpp)
#include <inlay/ops/linear_int8.hpp>

#include <algorithm>

#include "npu_kernels/backend/features.hpp"
#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/linear/epilogue.hpp"
#include "npu_kernels/linear/int8_rows.hpp"
#include "npu_kernels/linear/layout.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

constexpr BlockForm bytes_in_blocks{.unit = DType::i8};

// Four inputs of a channel are a word.
RowSource weight_of(GlobalMemory& memory, const LinearInt8<Host>& op) {
  const ConstView<3> words{op.weight.data, DType::i32, {op.weight.extents[0], op.weight.extents[1], panel_rows}};
  return {
      .panels = memory.bind("weight", words), .dtype = DType::i8, .count = op.y.extents[1], .depth = op.x.extents[1]};
}

Products products_of(const Device& device, const Int8Rows& x) {
  Products products{.left = {x.q}, .right = {}, .sum = DType::i32, .segments = {{0, x.depth}}};
  cut(products, device, DType::i8);
  return products;
}

// Outliers: S[t,o] = sum_i clipped[t,i] (w[o,i] - weight_zero[o]). The clipped parts go in two halves, as f32 operands
// do; differences of int8 are exact in f16.
Layer outliers_of(GlobalMemory& memory, const Tensor& clipped, RowSource weight, const NdTensor& zero,
                  const Tensor& sums) {
  const index rows = clipped.rows(), depth = clipped.columns();
  Layer layer{.left = halves(memory, "clipped", {.rows = by_axes(clipped), .count = rows, .depth = depth}, 2)};
  weight.less = zero;
  layer.right = {.parts = {blocked_operand(memory, "differences", weight.count, depth, DType::f16)}, .source = weight};
  layer.plan = plan_products(
      memory, {.left = layer.left.parts, .right = {}, .sum = DType::f32, .segments = {{0, depth}}}, layer.right);
  layer.result = {.y = by_axes(sums), .row_scale = layer.left.powers(), .powers = true};
  return layer;
}

}  // namespace

Status declined(const Device& device, const LinearInt8<Host>& op) {
  if (Status status = lacks_products(device, DType::i8, DType::i32); !status.ok()) return status;
  return op.shadow_outliers ? lacks_products(device, DType::f16, DType::f32) : Status();
}

WeightForm weight_form(const Device&, const LinearInt8<Host>& op) { return form_of(op.weight, DType::i8); }

Packing packing(GlobalMemory& memory, const LinearInt8<Host>& op, const Choices&) {
  const RowSource w = weight_of(memory, op);
  Products products = products_of(memory.device(), int8_rows(memory, op));
  if (op.x.extents[1] == 0 || !laid_out(memory, "w", w, products).parts.front().blocked()) return {};
  return packing_of(w, bytes_in_blocks, memory.device(), [op](GlobalMemory& to) { return weight_of(to, op); });
}

Program program(GlobalMemory& memory, const LinearInt8<Host>& op, const Choices& choices) {
  const index m = op.x.extents[0], n = op.y.extents[1], k = op.x.extents[1];
  const Int8Rows x = int8_rows(memory, op);
  const RowSource w = weight_of(memory, op);
  Layer layer{.result = {.y = memory.bind("y", op.y, Use::out),
                         .weight_sum = memory.bind("weight_sum", op.weight_sum),
                         .weight_zero = memory.bind_optional("weight_zero", op.weight_zero),
                         .column_scale = memory.bind_optional("weight_scale", op.weight_scale),
                         .bias = memory.bind_optional("bias", op.bias),
                         .y_scale = memory.bind_optional("y_scale", op.y_scale),
                         .y_zero = memory.bind_optional("y_zero", op.y_zero),
                         .row_shift = x.shift,
                         .row_rest = x.rest,
                         .row_scale = x.scale}};

  Products products = products_of(memory.device(), x);
  layer.right = choices.packed == nullptr ? laid_out(memory, "w", w, products)
                                          : packed_blocks(memory, w, bytes_in_blocks, choices.packed);
  layer.plan = plan_products(memory, products, layer.right);
  std::optional<Layer> outliers;
  if (op.shadow_outliers) {
    layer.result.shadow = memory.workspace("shadow", {m, n}, DType::f32);
    outliers = outliers_of(memory, x.clipped, w, layer.result.weight_zero, layer.result.shadow);
  }
  const index bytes = byte_size(op.x.dtype, m * k) + n * k + byte_size(op.y.dtype, m * n);
  return layer_program(memory, layer, bytes, [=](Core& core) {
    if (x.prepared()) make_int8_rows(core, x);
    if (outliers) {
      core.sync_all();
      multiply_layer(core, *outliers, true);
    }
    multiply_layer(core, layer, x.prepared());
  });
}

template struct Operator<LinearInt8<Host>>;

}  // namespace inlay::npu
