#include "npu_kernels/attention/decode_results.hpp"

namespace inlay::npu {

DecodeResults::DecodeResults(Core& core, const DecodeOperands& op, RowRange mine)
    : core_(core),
      op_(op),
      mine_(mine),
      result_(core.ring("result", Space::vector, {mine.count, op.dim()}, op.splits == 1 ? op.out.dtype : DType::f32,
                        {1, Pipe::vector, Pipe::store})) {
  if (op.splits == 1) return;
  totals_.emplace(core.ring("totals", Space::vector, {mine.count, 1}, DType::f32, {1, Pipe::vector, Pipe::store}));
  maxima_.emplace(core.ring("maxima", Space::vector, {mine.count, 1}, DType::f32, {1, Pipe::vector, Pipe::store}));
}

void DecodeResults::store(const TokenTile& tile, const Tensor& sum, const Tensor& total, const Tensor& maximum) {
  const index row = tile.item * op_.group() + mine_.first;  // of the splits' results
  if (op_.splits == 1) core_.vbinary(VectorOp::div, sum, sum, total);
  core_.vcast(result_.acquire(), sum);
  result_.commit();
  const Tensor to = op_.splits == 1 ? op_.out.row_slice(tile.query_row + mine_.first, mine_.count)
                                    : op_.sums.row_slice(row, mine_.count);
  core_.copy(to, result_.wait());
  if (op_.splits > 1) {
    store_statistic(*totals_, total, op_.totals, row);
    store_statistic(*maxima_, maximum, op_.maxima, row);
  }
  result_.release();
}

void DecodeResults::store_statistic(Ring& ring, const Tensor& of_item, const Tensor& all, index row) {
  core_.vcast(ring.acquire(), of_item);
  ring.commit();
  core_.copy(all.row_slice(row, mine_.count), ring.wait());
  ring.release();
}

}  // namespace inlay::npu
