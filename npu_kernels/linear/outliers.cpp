#include "npu_kernels/linear/outliers.hpp"

#include <algorithm>

namespace inlay::npu {

namespace {

void make_differences(Core& core, const Outliers& s) {
  const RowTile tile = row_tile(core.device(), DType::f16, s.weight.depth, 16);
  const index block = core.device().fractal_block(DType::f16);
  Scratch scratch(core);
  RowReader reader(core, scratch, s.weight, tile.rows, tile.depth);
  const Tensor w = scratch.alloc("w", {tile.rows, tile.depth}, DType::f16);
  const bool given = s.weight_zero.present();
  Ring zeros = core.ring("zeros", Space::vector, {tile.rows, 2}, DType::i8, {1, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("differences", Space::vector, {tile.rows, tile.depth}, DType::f16,
                       {2, Pipe::vector, Pipe::store}, Layout::nz);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const index step = tile.rows * core.vector_workers();
  for (index row = core.vector_worker() * tile.rows; row < s.weight.count; row += step) {
    const index rows = std::min(tile.rows, s.weight.count - row);
    Tensor zero;
    if (given) {
      core.copy(by_axes(zeros.acquire().slice(0, rows, 0, 1)).at(1, 0), one_each(s.weight_zero, row, rows));
      zeros.commit();
      zero = zeros.wait().slice(0, rows, 0, 1);
    }
    for (index k = 0; k < s.weight.depth; k += tile.depth) {
      const index depth = std::min(tile.depth, s.weight.depth - k), padded = round_up(depth, block);
      const Tensor part = w.slice(0, rows, 0, depth), filled = w.slice(0, rows, 0, padded);
      if (padded > depth) core.vfill(filled, 0);
      core.vcast(part, reader.read(row, rows, k, depth));
      reader.release();
      if (given) core.vbinary(VectorOp::sub, part, part, zero);
      core.vpack_nz(out.acquire().slice(0, rows, 0, padded), filled);
      out.commit();
      store_blocks(core, s.right.parts.front(), out.wait().slice(0, rows, 0, padded), row, k);
      out.release();
    }
    if (given) zeros.release();
  }
}

}  // namespace

Outliers shadow(GlobalMemory& memory, const Tensor& clipped, const RowSource& weight, const NdTensor& weight_zero) {
  Outliers s{.clipped = {.rows = by_axes(clipped),
                         .panels = {},
                         .dtype = DType::f32,
                         .count = clipped.rows(),
                         .depth = clipped.columns()},
             .weight = weight,
             .weight_zero = weight_zero,
             .left = halves(memory, "clipped", clipped.rows(), clipped.columns(), 2),
             .right = blocks_of(memory, "differences", weight.count, weight.depth, DType::f16),
             .products = {},
             .tiles = {},
             .handover = {},
             .sums = {}};
  s.products = {.left = s.left.parts, .right = s.right.parts, .sum = DType::f32, .segments = {{0, weight.depth}}};
  s.tiles = product_tiles(memory.device(), memory.cores(), s.products);
  s.handover = handover_workspace(memory, s.products, s.tiles);
  s.sums = memory.workspace("shadow", {clipped.rows(), weight.count}, DType::f32);
  return s;
}

// What is clipped is there already, and seen by all cores.
void make_outliers(Core& core, const Outliers& s) {
  make_halves(core, s.clipped, s.left);
  make_differences(core, s);
  core.sync_all();
  Scratch scratch(core);
  const LinearResult result{.y = by_axes(s.sums), .row_scale = s.left.powers(), .powers = true};
  Epilogue epilogue(core, scratch, result, s.tiles, s.products.steps());
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  multiply(core, s.products, s.tiles, s.handover, [&](const Sums& sums) { epilogue(sums); });
}

}  // namespace inlay::npu
