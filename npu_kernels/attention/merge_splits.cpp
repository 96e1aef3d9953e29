#include "npu_kernels/attention/merge_splits.hpp"

namespace inlay::npu {

void merge_splits(Core& core, const DecodeOperands& op) {
  core.sync_all();
  const index rows = op.group(), dim = op.dim(), all = op.splits * rows;
  Ring sums = core.ring("partial sums", Space::vector, {all, dim}, DType::f32, {2, Pipe::load_vector, Pipe::vector});
  Ring maxima = core.ring("partial maxima", Space::vector, {all, 1}, DType::f32, {2, Pipe::load_vector, Pipe::vector});
  Ring totals = core.ring("partial totals", Space::vector, {all, 1}, DType::f32, {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("out", Space::vector, {rows, dim}, op.out.dtype, {2, Pipe::vector, Pipe::store});
  const Tensor maximum = core.alloc("maximum over splits", Space::vector, {rows, 1}, DType::f32);

  const Chain chain = core.chain(Pipe::vector);
  for (index head = core.block_idx(); head < op.sequences * op.cache_heads; head += core.block_dim()) {
    core.copy(maxima.acquire(), op.maxima.row_slice(head * all, all));
    maxima.commit();
    core.copy(totals.acquire(), op.totals.row_slice(head * all, all));
    totals.commit();
    core.copy(sums.acquire(), op.sums.row_slice(head * all, all));
    sums.commit();
    const Tensor top = maxima.wait(), total = totals.wait(), sum = sums.wait();
    const auto of = [&](const Tensor& tensor, index split) { return tensor.row_slice(split * rows, rows); };
    core.vcast(maximum, of(top, 0));
    for (index split = 1; split < op.splits; ++split) core.vbinary(VectorOp::max, maximum, maximum, of(top, split));
    for (index split = 0; split < op.splits; ++split)
      core.vbinary(VectorOp::sub, of(top, split), of(top, split), maximum);
    core.vunary(VectorOp::exp, top, top);
    core.vbinary(VectorOp::mul, total, total, top);
    core.vbinary(VectorOp::mul, sum, sum, top);
    for (index split = 1; split < op.splits; ++split) {
      core.vbinary(VectorOp::add, of(total, 0), of(total, 0), of(total, split));
      core.vbinary(VectorOp::add, of(sum, 0), of(sum, 0), of(sum, split));
    }
    core.vbinary(VectorOp::div, of(sum, 0), of(sum, 0), of(total, 0));
    core.vcast(out.acquire(), of(sum, 0));
    out.commit();
    maxima.release();
    totals.release();
    sums.release();
    core.copy(op.out.row_slice(head * rows, rows), out.wait());
    out.release();
  }
}

}  // namespace inlay::npu
