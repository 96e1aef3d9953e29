#include "npu_kernels/rows/copy_through.hpp"

#include "npu_kernels/rows/tile_iterator.hpp"

namespace inlay::npu::rows {

void copy_through(Core& core, const NdTensor& to, const NdTensor& from) {
  if (to.empty()) return;
  const DType type = from.first.dtype;
  const TileIterator walk(core, {from.extent(0), from.extent(1), from.extent(2)}, Need().output(type));
  Ring ring = core.ring("forward", Space::vector, walk.tile(), type, {2, Pipe::load_vector, Pipe::store});
  const auto load = [&](index step) {
    const Window window = walk.at(step);
    core.copy(by_axes(window.of(ring.acquire())), window.of(from));
    ring.commit();
  };
  if (walk.steps() > 0) load(0);
  for (index step = 0; step < walk.steps(); ++step) {
    if (step + 1 < walk.steps()) load(step + 1);
    const Window window = walk.at(step);
    core.copy(window.of(to), by_axes(window.of(ring.wait())));
    ring.release();
  }
}

}  // namespace inlay::npu::rows
