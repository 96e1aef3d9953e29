#include "npu_kernels/attention/merge_splits.hpp"

namespace inlay::npu {

void merge_splits(Core& core, const DecodeOperands& op) {
  core.sync_all();
  const index rows = op.group(), dim = op.dim(), all = op.splits * rows;
  Ring sums = core.ring("partial sums", Space::vector, {all, dim}, DType::f32, {2, Pipe::load_vector, Pipe::vector});
  // A row for each split: rows start where a vector operand may.
  const Shape by_split{op.splits, rows};
  Ring maxima = core.ring("partial maxima", Space::vector, by_split, DType::f32, {2, Pipe::load_vector, Pipe::vector});
  Ring totals = core.ring("partial totals", Space::vector, by_split, DType::f32, {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("out", Space::vector, {rows, dim}, op.out.dtype, {2, Pipe::vector, Pipe::store});
  const Tensor maximum = core.alloc("maximum over splits", Space::vector, {rows, 1}, DType::f32);

  for (index head = core.block_idx(); head < op.sequences * op.cache_heads; head += core.block_dim()) {
    core.copy(maxima.acquire(), op.maxima.row_slice(head * all, all).reshape(by_split));
    maxima.commit();
    core.copy(totals.acquire(), op.totals.row_slice(head * all, all).reshape(by_split));
    totals.commit();
    core.copy(sums.acquire(), op.sums.row_slice(head * all, all));
    sums.commit();
    const Tensor top = maxima.wait(), total = totals.wait(), sum = sums.wait();
    const auto of = [&](const Tensor& tensor, index split) { return tensor.row_slice(split * rows, rows); };
    const auto column = [&](const Tensor& tensor, index split) {
      return tensor.row_slice(split, 1).reshape({rows, 1});
    };
    core.vcast(maximum, column(top, 0));
    for (index split = 1; split < op.splits; ++split) {
      core.barrier(Pipe::vector);
      core.vbinary(VectorOp::max, maximum, maximum, column(top, split));
    }
    core.barrier(Pipe::vector);
    for (index split = 0; split < op.splits; ++split)
      core.vbinary(VectorOp::sub, column(top, split), column(top, split), maximum);
    core.barrier(Pipe::vector);
    core.vunary(VectorOp::exp, top, top);
    core.barrier(Pipe::vector);
    core.vbinary(VectorOp::mul, total, total, top);
    for (index split = 0; split < op.splits; ++split)
      core.vbinary(VectorOp::mul, of(sum, split), of(sum, split), column(top, split));
    core.barrier(Pipe::vector);
    for (index split = 1; split < op.splits; ++split) {
      core.vbinary(VectorOp::add, column(total, 0), column(total, 0), column(total, split));
      core.vbinary(VectorOp::add, of(sum, 0), of(sum, 0), of(sum, split));
      core.barrier(Pipe::vector);
    }
    core.vbinary(VectorOp::div, of(sum, 0), of(sum, 0), column(total, 0));
    core.barrier(Pipe::vector);
    core.vcast(out.acquire(), of(sum, 0));
    out.commit();
    maxima.release();
    totals.release();
    sums.release();
    core.barrier(Pipe::vector);
    core.copy(op.out.row_slice(head * rows, rows), out.wait());
    out.release();
  }
}

}  // namespace inlay::npu
