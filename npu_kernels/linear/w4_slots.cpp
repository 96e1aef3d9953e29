#include "npu_kernels/linear/w4_slots.hpp"

#include <algorithm>

#include "npu_kernels/linear/split_f16.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

void make_slots(Core& core, const W4Slots& to) {
  const index slots = to.slots.columns(), inputs = to.x.depth;
  const RowTile tile = row_tile(core.device(), DType::f16, std::max(slots, inputs), 32);
  Scratch scratch(core);
  RowReader reader(core, scratch, to.x, tile.rows, tile.depth);
  const Shape shape{tile.rows, tile.depth};
  const Tensor x = scratch.alloc("x", shape, DType::f32), found = scratch.alloc("found", shape, DType::f32);
  const Tensor places = scratch.alloc("places", {1, tile.depth}, DType::i32);
  Ring perm = core.ring("perm", Space::vector, {1, tile.depth}, DType::i32, {1, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("slots", Space::vector, shape, DType::f32, {2, Pipe::vector, Pipe::store});
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const index across = ceil_div(slots, tile.depth), tiles = ceil_div(to.x.count, tile.rows) * across;
  for (index i = core.vector_worker(); i < tiles; i += core.vector_workers()) {
    const index row = i / across * tile.rows, slot = i % across * tile.depth;
    const index rows = std::min(tile.rows, to.x.count - row), count = std::min(tile.depth, slots - slot);
    const Tensor at = places.slice(0, 1, 0, count), gathered = found.slice(0, rows, 0, count);
    core.copy(by_axes(perm.acquire().slice(0, 1, 0, count)).at(0, 0), to.perm.slice(0, slot, count));
    perm.commit();
    const Tensor inputs_of = perm.wait().slice(0, 1, 0, count), sum = out.acquire().slice(0, rows, 0, count);
    core.vfill(sum, 0);
    for (index k = 0; k < inputs; k += tile.depth) {
      const index depth = std::min(tile.depth, inputs - k);
      const Tensor part = x.slice(0, rows, 0, depth);
      core.vcast(part, reader.read(row, rows, k, depth));
      reader.release();
      core.vscalar(VectorOp::sub, at, inputs_of, static_cast<std::int32_t>(k));
      core.vgather(gathered, part, at);
      core.vbinary(VectorOp::add, sum, sum, gathered);
    }
    perm.release();
    out.commit();
    core.copy(by_axes(to.slots.slice(row, rows, slot, count)), by_axes(out.wait().slice(0, rows, 0, count)));
    out.release();
  }
}

}  // namespace inlay::npu
