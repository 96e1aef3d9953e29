#include "npu_kernels/linear/accumulator_to_vector.hpp"

#include <algorithm>

#include "npu_kernels/backend/row_partition.hpp"

namespace inlay::npu {

Tensor handover_workspace(GlobalMemory& memory, const Products& products, const ProductTiles& tiles) {
  if (drains_to_vector(memory.device())) return {};
  return memory.workspace("sums in global memory", {index{memory.cores()} * tiles.handed * tiles.sum_m, tiles.sum_n},
                          products.sum);
}

namespace {

std::uint32_t rows_on_their_way(const Device& device) { return drains_to_vector(device) ? 3 : 2; }

}  // namespace

index SumsToVector::bytes(const Device& device, const ProductTiles& tiles, DType dtype) {
  return rows_on_their_way(device) * tiles.vector_m * tiles.sum_n * byte_size(dtype, 1);
}

SumsToVector::SumsToVector(Core& core, const ProductTiles& tiles, DType dtype, const Tensor& workspace)
    : core_(core),
      rows_(tiles.vector_m),
      unit_(tiles.row_unit),
      direct_(drains_to_vector(core.device())),
      tiles_(core.ring("rows of sums", Space::vector, {tiles.vector_m, tiles.sum_n}, dtype,
                       {rows_on_their_way(core.device()), direct_ ? Pipe::drain : Pipe::load_vector, Pipe::vector})) {
  if (direct_) return;
  through_.emplace(workspace_ring(core, "sums in global memory", workspace, tiles.sum_m, tiles.handed, Pipe::drain,
                                  Pipe::load_vector));
}

void SumsToVector::pass(Ring& sums, index m, index n, const Sums& where, const Consumer& consume) {
  const Tensor sum = sums.wait().slice(0, m, 0, n);
  Tensor passed;
  if (!direct_) {
    core_.drain(through_->acquire().slice(0, m, 0, n), sum);
    through_->commit();
    passed = through_->wait();
  }
  const RowRange units = my_rows(core_, m / unit_), mine{units.first * unit_, units.count * unit_};
  for (index at = 0; at < mine.count; at += rows_) {
    const index count = std::min(rows_, mine.count - at), row = mine.first + at;
    const Tensor to = tiles_.acquire().slice(0, count, 0, n);
    if (direct_)
      core_.drain(to, sum.slice(row, count, 0, n));
    else
      core_.copy(to, passed.slice(row, count, 0, n));
    tiles_.commit();
    Sums here = where;
    here.tile = to;
    here.row += row;
    here.at += at;
    drained_.push_back(here);
    while (drained_.size() > (direct_ ? 1 : 0)) consume_oldest(consume);
  }
  sums.release();
  if (!direct_) through_->release();
}

void SumsToVector::consume_oldest(const Consumer& consume) {
  Sums sums = drained_.front();
  drained_.pop_front();
  sums.tile = tiles_.wait().slice(0, sums.tile.rows(), 0, sums.tile.columns());
  consume(sums);
  tiles_.release();
}

void SumsToVector::finish(const Consumer& consume) {
  while (!drained_.empty()) consume_oldest(consume);
}

}  // namespace inlay::npu
