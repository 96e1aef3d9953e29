#include "npu_kernels/attention/merge_splits.hpp"

#include <algorithm>

namespace inlay::npu {

void merge_splits(Core& core, const DecodeOperands& op) {
  core.sync_all();
  const index rows = op.group(), dim = op.dim(), all = op.splits * rows;
  // A row for each split: rows start where a vector operand may. Of one column they would not.
  const Shape by_split{op.splits, std::max<index>(rows, 2)}, used{op.splits, rows};
  auto parts = core.ring<3>("parts",
                            {{{"partial maxima", Space::vector, by_split},
                              {"partial totals", Space::vector, by_split},
                              {"partial sums", Space::vector, {all, dim}}}},
                            {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("out", Space::vector, {rows, dim}, op.out.dtype, {2, Pipe::vector, Pipe::store});
  const Tensor maximum = core.alloc("maximum over splits", Space::vector, {rows, 1}, DType::f32);

  const Chain chain = core.chain(Pipe::vector);
  for (index head = core.vector_worker(); head < op.sequences * op.cache_heads; head += core.vector_workers()) {
    const auto [maxima, totals, sums] = parts.acquire();
    core.copy(maxima.slice(0, op.splits, 0, rows), op.maxima.row_slice(head * all, all).reshape(used));
    core.copy(totals.slice(0, op.splits, 0, rows), op.totals.row_slice(head * all, all).reshape(used));
    core.copy(sums, op.sums.row_slice(head * all, all));
    parts.commit();
    const auto [padded_top, padded_total, sum] = parts.wait();
    const Tensor top = padded_top.slice(0, op.splits, 0, rows), total = padded_total.slice(0, op.splits, 0, rows);
    const auto of = [&](const Tensor& tensor, index split) { return tensor.row_slice(split * rows, rows); };
    const auto column = [&](const Tensor& tensor, index split) {
      return tensor.row_slice(split, 1).reshape({rows, 1});
    };
    core.vcast(maximum, column(top, 0));
    for (index split = 1; split < op.splits; ++split) core.vbinary(VectorOp::max, maximum, maximum, column(top, split));
    for (index split = 0; split < op.splits; ++split)
      core.vbinary(VectorOp::sub, column(top, split), column(top, split), maximum);
    core.vunary(VectorOp::exp, top, top);
    core.vbinary(VectorOp::mul, total, total, top);
    for (index split = 0; split < op.splits; ++split)
      core.vbinary(VectorOp::mul, of(sum, split), of(sum, split), column(top, split));
    for (index split = 1; split < op.splits; ++split) {
      core.vbinary(VectorOp::add, column(total, 0), column(total, 0), column(total, split));
      core.vbinary(VectorOp::add, of(sum, 0), of(sum, 0), of(sum, split));
    }
    core.vbinary(VectorOp::div, of(sum, 0), of(sum, 0), column(total, 0));
    core.vcast(out.acquire(), of(sum, 0));
    out.commit();
    parts.release();
    core.copy(op.out.row_slice(head * rows, rows), out.wait());
    out.release();
  }
}

}  // namespace inlay::npu
