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

// Tiles of w - weight_zero: differences of int8 are exact in f16.
class Differences {
 public:
  Differences(Core& core, Scratch& scratch, const RowSource& weight, const NdTensor& zero, RowTile tile)
      : core_(core),
        zero_(zero),
        reader_(core, scratch, weight, tile.rows, tile.depth),
        w_(scratch.alloc("w", {tile.rows, tile.depth}, DType::f16)),
        zeros_(core.ring("zeros", Space::vector, {tile.rows, 2}, DType::i8, {1, Pipe::load_vector, Pipe::vector})) {}
  void operator()(const Tensor& tile, index row, index rows, index k, index depth) {
    const Tensor filled = w_.slice(0, rows, 0, tile.columns()), w = filled.slice(0, rows, 0, depth);
    if (tile.columns() > depth) core_.vfill(filled, 0);
    core_.vcast(w, reader_.read(row, rows, k, depth));
    reader_.release();
    if (zero_.present()) {
      core_.copy(by_axes(zeros_.acquire().slice(0, rows, 0, 1)).at(1, 0), one_each(zero_, row, rows));
      zeros_.commit();
      core_.vbinary(VectorOp::sub, w, w, zeros_.wait().slice(0, rows, 0, 1));
      zeros_.release();
    }
    core_.vpack_nz(tile, filled);
  }

 private:
  Core& core_;
  NdTensor zero_;
  RowReader reader_;
  Tensor w_;
  Ring zeros_;
};

// Outliers: S[t,o] = sum_i clipped[t,i] (w[o,i] - weight_zero[o]). The clipped parts go in two halves, as f32 operands
// do.
struct Outliers {
  Prepared left = {}, right = {};
  ProductPlan plan = {};
  LinearResult sums = {};
};

Outliers outliers_of(GlobalMemory& memory, const Tensor& clipped, const RowSource& weight, const NdTensor& zero,
                     const Tensor& sums) {
  const index rows = clipped.rows(), depth = clipped.columns();
  const RowSource source{.rows = by_axes(clipped), .dtype = DType::f32, .count = rows, .depth = depth};
  Outliers s{.left = halves(memory, "clipped", source, 2)};
  s.right.parts = {blocked_operand(memory, "differences", weight.count, depth, DType::f16)};
  s.right.tiles = [weight, zero](Core& core, Scratch& scratch, RowTile at_once, std::uint32_t) {
    return tiles_of(std::make_shared<Differences>(core, scratch, weight, zero, at_once));
  };
  s.plan =
      plan_products(memory, {.left = s.left.parts, .right = {}, .sum = DType::f32, .segments = {{0, depth}}}, s.right);
  s.sums = {.y = by_axes(sums), .row_scale = s.left.powers(), .powers = true};
  return s;
}

// What is clipped is there already, and seen by all cores.
void make_outliers(Core& core, const Outliers& s) {
  prepare(core, s.left);
  prepare(core, s.right);
  multiply_layer(core, s.right, s.plan, s.sums, true);
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
  LinearResult result{.y = memory.bind("y", op.y, Use::out),
                      .weight_sum = memory.bind("weight_sum", op.weight_sum),
                      .weight_zero = memory.bind_optional("weight_zero", op.weight_zero),
                      .column_scale = memory.bind_optional("weight_scale", op.weight_scale),
                      .bias = memory.bind_optional("bias", op.bias),
                      .y_scale = memory.bind_optional("y_scale", op.y_scale),
                      .y_zero = memory.bind_optional("y_zero", op.y_zero),
                      .row_shift = x.shift,
                      .row_rest = x.rest,
                      .row_scale = x.scale};

  Products products = products_of(memory.device(), x);
  const Prepared right = choices.packed == nullptr ? laid_out(memory, "w", w, products)
                                                   : packed_blocks(memory, w, bytes_in_blocks, choices.packed);
  const ProductPlan plan = plan_products(memory, products, right);
  std::optional<Outliers> outliers;
  if (op.shadow_outliers) {
    result.shadow = memory.workspace("shadow", {m, n}, DType::f32);
    outliers = outliers_of(memory, x.clipped, w, result.weight_zero, result.shadow);
  }
  const auto body = [=](Core& core) {
    if (x.prepared()) make_int8_rows(core, x);
    prepare(core, right);
    if (outliers) {
      core.sync_all();
      make_outliers(core, *outliers);
    }
    multiply_layer(core, right, plan, result, x.prepared() || right.before());
  };
  const index bytes = byte_size(op.x.dtype, m * k) + n * k + byte_size(op.y.dtype, m * n);
  const index pieces = ceil_div(m, plan.tiles.block_m) * ceil_div(n, plan.tiles.block_n);
  return {.body = body,
          .problem = {static_cast<std::uint64_t>(bytes),
                      {{DType::i8, DType::i32, static_cast<std::uint64_t>(2 * m * n * k)}}},
          .launch = {.cores = cores_of_layer(memory, m, n, k, pieces)}};
}

template struct Operator<LinearInt8<Host>>;

}  // namespace inlay::npu
