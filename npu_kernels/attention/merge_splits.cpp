#include "npu_kernels/attention/merge_splits.hpp"

namespace inlay::npu {

void merge_splits(Core& core, const DecodeOperands& op) {
  core.sync_all();
  const index rows = op.group(), dim = op.dim(), all = op.splits * rows;
  auto parts = core.ring<3>("parts",
                            {{{"partial maxima", Space::vector, {all, 1}},
                              {"partial totals", Space::vector, {all, 1}},
                              {"partial sums", Space::vector, {all, dim}}}},
                            {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("out", Space::vector, {rows, dim}, op.out.dtype, {2, Pipe::vector, Pipe::store});
  const Tensor maximum = core.alloc("maximum over splits", Space::vector, {rows, 1}, DType::f32);

  const Chain chain = core.chain(Pipe::vector);
  for (index head = core.vector_worker(); head < op.sequences * op.cache_heads; head += core.vector_workers()) {
    const auto [maxima, totals, sums] = parts.acquire();
    core.copy(maxima, op.maxima.row_slice(head * all, all));
    core.copy(totals, op.totals.row_slice(head * all, all));
    core.copy(sums, op.sums.row_slice(head * all, all));
    parts.commit();
    const auto [top, total, sum] = parts.wait();
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
    parts.release();
    core.copy(op.out.row_slice(head * rows, rows), out.wait());
    out.release();
  }
}

}  // namespace inlay::npu
