// y = (sum (q - x_zero) (w - weight_zero)) scales + bias, in int8 on the matrix unit.
//
//   vector   x -> q, scale, shift, rest of each row                      (int8_rows.hpp)
//   --- all cores meet ---                                               unless x is multiplied as it lies
//   vector   w: panels -> fractal blocks, as they are needed             (repack.hpp), unless it has been packed
//   load -> feed -> matrix (i8 -> i32) -> drain                          (products.hpp)
//   vector   zero points, scales, bias, rounding -> y (epilogue.hpp)
#include <inlay/ops/linear_int8.hpp>

#include <algorithm>

#include "npu_kernels/backend/features.hpp"
#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/linear/epilogue.hpp"
#include "npu_kernels/linear/launch.hpp"
#include "npu_kernels/linear/outliers.hpp"
#include "npu_kernels/linear/packed_blocks.hpp"
#include "npu_kernels/linear/repack.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

constexpr BlockForm bytes_in_blocks{.unit = DType::i8};

// Four inputs of a channel are a word.
RowSource weight_of(GlobalMemory& memory, const LinearInt8<Host>& op) {
  const ConstView<3> words{op.weight.data, DType::i32, {op.weight.extents[0], op.weight.extents[1], panel_rows}};
  return {.rows = {},
          .panels = memory.bind("weight", words),
          .dtype = DType::i8,
          .count = op.y.extents[1],
          .depth = op.x.extents[1]};
}

Products products_of(const Int8Rows& x) {
  return {.left = {x.q}, .right = {}, .sum = DType::i32, .segments = {{0, x.depth}}};
}

}  // namespace

Status declined(const Device& device, const LinearInt8<Host>& op) {
  if (Status status = lacks_products(device, DType::i8, DType::i32); !status.ok()) return status;
  return op.shadow_outliers ? lacks_products(device, DType::f16, DType::f32) : Status();
}

WeightForm weight_form(const Device&, const LinearInt8<Host>& op) { return form_of(op.weight, DType::i8); }

Packing packing(GlobalMemory& memory, const LinearInt8<Host>& op, const Choices&) {
  const RowSource w = weight_of(memory, op);
  Products products = products_of(int8_rows(memory, op));
  if (op.x.extents[1] == 0 || !laid_out(memory, "w", w, products).blocks.blocked()) return {};
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

  Products products = products_of(x);
  const LaidOut right =
      choices.packed == nullptr
          ? laid_out(memory, "w", w, products)
          : as_packed(w, packed_blocks(memory, w, bytes_in_blocks, choices.packed).parts.front(), products);
  const ProductTiles tiles = product_tiles(memory.device(), memory.cores(), products, right.made);
  const Tensor handover = handover_workspace(memory, products, tiles);
  std::optional<Outliers> outliers;
  if (op.shadow_outliers) {
    outliers = shadow(memory, x.clipped, w, result.weight_zero);
    result.shadow = outliers->sums;
  }
  const auto body = [=](Core& core) {
    if (x.prepared()) make_int8_rows(core, x);
    lay_out_before(core, right);
    if (outliers) {
      core.sync_all();
      make_outliers(core, *outliers);
    }
    Scratch scratch(core);
    Epilogue epilogue(core, scratch, result, tiles, 1);
    const AutoBarrier chain = core.auto_barrier(Pipe::vector);
    multiply(
        core, scratch, right, products, tiles, handover, [&](const Sums& sums) { epilogue(sums); }, x.prepared());
  };
  const index bytes = byte_size(op.x.dtype, m * k) + n * k + byte_size(op.y.dtype, m * n);
  const index pieces = ceil_div(m, tiles.block_m) * ceil_div(n, tiles.block_n);
  return {.body = body,
          .problem = {static_cast<std::uint64_t>(bytes),
                      {{DType::i8, DType::i32, static_cast<std::uint64_t>(2 * m * n * k)}}},
          .launch = {.cores = cores_of_layer(memory, m, n, k, pieces)}};
}

template struct Operator<LinearInt8<Host>>;

}  // namespace inlay::npu
