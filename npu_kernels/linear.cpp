// y = x w^T + bias: x and w as f16, in one part where that is exact, in two halves where they are f32 (halves.hpp).
//
//   vector   x, w -> halves, fractal        what is f16, or bf16 on both sides, goes as it is, or is made fractal only:
//                                           w as it is used (made_blocks.hpp)
//   --- all cores meet ---
//   load -> feed -> matrix -> drain         each pair of parts (products.hpp)
//   vector   sums of pairs, powers of rows and channels, bias, rounding -> y (float_epilogue.hpp)
#include <inlay/ops/linear.hpp>

#include <algorithm>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/linear/float_epilogue.hpp"
#include "npu_kernels/linear/halves.hpp"
#include "npu_kernels/linear/launch.hpp"
#include "npu_kernels/linear/made_blocks.hpp"
#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// One side of the product, and whether the vector unit prepares it.
struct Side {
  RowSource source;
  bool prepared = false;
  Halves halves;
  std::vector<Operand> parts;
};

Side prepared_side(const RowSource& source, const Halves& halves) {
  return {.source = source, .prepared = true, .halves = halves, .parts = halves.parts};
}

// The packed weight as words of 16 channels: pairs of bf16 are words of 32 bits.
RowSource weight_of(GlobalMemory& memory, const Linear<Host>& op) {
  const index n = op.y.extents[1], k = op.x.extents[1];
  if (op.weight_rows.present())
    return {.rows = memory.bind("weight_rows", op.weight_rows),
            .panels = {},
            .dtype = op.weight_rows.dtype,
            .count = n,
            .depth = k};
  ConstView<3> words = op.weight;
  if (words.dtype == DType::bf16)
    words = {op.weight.data, DType::i32, {words.extents[0], words.extents[1], panel_rows}};
  return {.rows = {}, .panels = memory.bind("weight", words), .dtype = op.weight.dtype, .count = n, .depth = k};
}

}  // namespace

Status declined(const Device&, const Linear<Host>& op) {
  const DType weight = op.weight.present() ? op.weight.dtype : op.weight_rows.dtype;
  const bool are_bf16 = op.x.dtype == DType::bf16 && weight == DType::bf16;
  if (op.compute == LinearCompute::exact_float || are_bf16) return {};
  return unsupported("bf16_products are the CPU's");
}

Program program(GlobalMemory& memory, const Linear<Host>& op, const Choices& choices) {
  const Device& device = memory.device();
  const index m = op.x.extents[0], n = op.y.extents[1], k = op.x.extents[1];
  const RowSource x{.rows = memory.bind("x", op.x), .panels = {}, .dtype = op.x.dtype, .count = m, .depth = k};
  const RowSource w = weight_of(memory, op);
  FloatResult result{.y = memory.bind("y", op.y, Use::out), .bias = {}, .row_power = {}, .col_power = {}};
  result.bias = memory.bind_optional("bias", op.bias);

  const bool bf16 = x.dtype == DType::bf16 && w.dtype == DType::bf16 && device.rate(DType::bf16, DType::f32) != nullptr;
  const DType unit = bf16 ? DType::bf16 : DType::f16;
  // Fractal blocks as they lie, or rows that may be loaded as blocks.
  const auto lies_well = [&](const RowSource& source, index tiles) {
    if (source.dtype != unit) return false;
    if (source.packed()) return device.fractal_block(unit) == panel_rows && source.per_word() == 1;
    return !blocks_pay(device, tiles) && loads_as_rows(source.rows);
  };
  const auto side_of = [&](const std::string& name, const RowSource& source, index tiles) {
    if (lies_well(source, tiles))
      return Side{.source = source,
                  .prepared = false,
                  .halves = {},
                  .parts = {source.packed() ? panels_operand(source.panels, source.count) : rows_operand(source.rows)}};
    if (source.dtype == unit) return prepared_side(source, blocks_of(memory, name, source.count, k, unit));
    const bool two = source.dtype == DType::f32 && choices.activations == NpuActivations::exact;
    return prepared_side(source, halves(memory, name, source.count, k, two ? 2 : 1));
  };
  const Side left = side_of("x", x, n / 256);
  Products products{.left = left.parts, .right = {}, .sum = DType::f32, .segments = {{0, k}}};
  // One part of the unit's type that has to be laid out anew may be so as it is used.
  const bool anew = w.dtype == unit && !lies_well(w, m / 128) && left.parts.size() == 1;
  const Side right = anew ? Side{} : side_of("w", w, m / 128);
  const LaidOut blocks = anew ? laid_out(memory, "w", w, products) : LaidOut{};
  if (!anew) products.right = right.parts;
  if (k > 0) result.row_power = left.halves.power;
  if (k > 0) result.col_power = right.halves.power;

  const ProductTiles tiles = product_tiles(device, memory.cores(), products, blocks.made);
  const Tensor handover = handover_workspace(memory, products, tiles);
  const auto body = [=](Core& core) {
    if (left.prepared) make_halves(core, left.source, left.halves);
    if (right.prepared) make_halves(core, right.source, right.halves);
    if (anew) lay_out_before(core, blocks);
    const bool meets = left.prepared || right.prepared || (anew && !blocks.made);
    if (meets && !blocks.stored()) core.sync_all();
    Scratch scratch(core);
    FloatEpilogue epilogue(core, scratch, result, tiles, products.steps());
    const Chain chain = core.chain(Pipe::vector);
    const auto consume = [&](const Sums& sums) { epilogue(sums); };
    if (!anew) return multiply(core, products, tiles, handover, consume);
    multiply(core, scratch, blocks, products, tiles, handover, consume, meets);
  };
  const index bytes = byte_size(x.dtype, m * k) + byte_size(w.dtype, n * k) + byte_size(op.y.dtype, m * n);
  const index pieces = ceil_div(m, tiles.block_m) * ceil_div(n, tiles.block_n);
  return {
      .body = body,
      .problem = {static_cast<std::uint64_t>(bytes), {{unit, DType::f32, static_cast<std::uint64_t>(2 * m * n * k)}}},
      .launch = {.cores = cores_of_layer(memory, m, n, k, pieces)}};
}

template struct Operator<Linear<Host>>;

}  // namespace inlay::npu
