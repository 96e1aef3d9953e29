#include "npu_kernels/kv_cache/blocks.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu::kv {

namespace {

constexpr std::uint32_t under_way = 8;  // pieces: a device of high bandwidth waits for latencies with fewer

index extent(const BlockRuns& runs, int axis) { return axis < 4 ? runs.count[axis] : runs.run; }

// Of a piece: the axes before the one that is cut are gone through one by one.
index extent_of_piece(const BlockCopy& copy, int axis) {
  return axis < copy.axis ? 1 : axis == copy.axis ? copy.part : extent(copy.runs, axis);
}

Ring ring_of(Core& core, const BlockCopy& copy) {
  index rows = 1;
  for (int axis = 0; axis < 4; ++axis) rows *= extent_of_piece(copy, axis);
  return core.ring("blocks", Space::vector, {rows, std::max<index>(2, extent_of_piece(copy, 4))},
                   copy.source.first.dtype, {under_way, Pipe::load_vector, Pipe::store});
}

}  // namespace

BlockCopy block_copy(const NdTensor& source, const ConstPagedView<>& from, const NdTensor& target,
                     const ConstPagedView<>& to, const Device& device, std::uint64_t bytes) {
  BlockCopy copy{.source = source, .target = target, .runs = block_runs(from, to)};
  for (int axis = 1; axis < 5; ++axis)
    if (from.extents[axis] == 0) return copy;
  const auto granule = static_cast<index>(device.memory(Space::vector).align);
  const index budget = static_cast<index>(std::min<std::uint64_t>(bytes, 1024 * 1024)) / under_way;  // of each slot
  const auto unit = [&](int axis) {  // bytes of one step along it
    index rows = 1;
    for (int inner = axis + 1; inner < 4; ++inner) rows *= copy.runs.count[inner];
    return axis == 4 ? byte_size(from.dtype, 1)
                     : rows * round_up(byte_size(from.dtype, std::max<index>(2, copy.runs.run)), granule);
  };
  while (copy.axis < 4 && unit(copy.axis) > budget) ++copy.axis;
  copy.part = std::clamp<index>(budget / unit(copy.axis), 1, extent(copy.runs, copy.axis));
  copy.pieces = ceil_div(extent(copy.runs, copy.axis), copy.part);
  for (int axis = 0; axis < copy.axis; ++axis) copy.pieces *= copy.runs.count[axis];
  return copy;
}

BlockCopier::BlockCopier(Core& core, const BlockCopy& copy) : core_(core), copy_(copy), ring_(ring_of(core, copy)) {}

NdTensor BlockCopier::piece_of(const NdTensor& cache, const index (&strides)[4], index block, index piece) const {
  NdTensor result = cache.slice(0, block, 1);
  result.rank = 5;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    result.extents[axis] = copy_.runs.count[axis];
    result.strides[axis] = strides[axis];
  }
  result.extents[4] = copy_.runs.run;
  result.strides[4] = 1;
  const index steps = ceil_div(extent(copy_.runs, copy_.axis), copy_.part), first = piece % steps * copy_.part;
  index outer = piece / steps;
  result = result.slice(copy_.axis, first, std::min(copy_.part, extent(copy_.runs, copy_.axis) - first));
  for (int axis = copy_.axis; axis-- > 0; outer /= copy_.runs.count[axis])
    result = result.slice(axis, outer % copy_.runs.count[axis], 1);
  return result;
}

void BlockCopier::move(index source, index target, index piece) {
  const NdTensor from = piece_of(copy_.source, copy_.runs.from, source, piece);
  const auto shaped = [&](const Tensor& tile) {
    index rows = 1;
    for (int axis = 0; axis < 4; ++axis) rows *= from.extent(axis);
    NdTensor result = by_axes(tile.slice(0, rows, 0, from.extent(4)));
    for (int axis = 3; axis > 0; --axis) result = result.split(0, from.extent(axis));
    return result;
  };
  core_.copy(shaped(ring_.acquire()), from);
  ring_.commit();
  core_.copy(piece_of(copy_.target, copy_.runs.to, target, piece), shaped(ring_.wait()));
  ring_.release();
}

}  // namespace inlay::npu::kv
