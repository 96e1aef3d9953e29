#include "npu_kernels/attention/finite_sums.hpp"

#include <algorithm>

namespace inlay::npu {

Tensor not_numbers_flags(GlobalMemory& memory) {
  const index vectors = memory.device().vector_units();
  return memory.workspace("not numbers", {static_cast<index>(memory.cores()) * vectors, 1}, DType::f32);
}

FiniteSums::FiniteSums(Core& core, index columns) : core_(core) {
  const Shape row{1, std::max<index>(columns, 2)};
  seen_ = core.alloc("sums of all rows", Space::vector, row, DType::f32);
  of_rows_ = core.alloc("sums of rows", Space::vector, row, DType::f32);
  core.vfill(seen_, 0);
}

// What is no number stays none in a sum, and an infinity becomes NaN at the latest when it is multiplied by 0.
void FiniteSums::look(const Tensor& sums) {
  const auto used = [&](const Tensor& row) { return row.slice(0, 1, 0, sums.columns()); };
  core_.vreduce_columns(VectorOp::column_sum, used(of_rows_), sums);
  core_.vbinary(VectorOp::add, used(seen_), used(seen_), used(of_rows_));
}

void FiniteSums::store(const Tensor& flags) {
  Ring out = core_.ring("flag", Space::vector, {1, 2}, DType::f32, {1, Pipe::vector, Pipe::store});
  const Tensor sum = of_rows_.slice(0, 1, 0, 1), flag = out.acquire().slice(0, 1, 0, 1);
  core_.vscalar(VectorOp::mul, seen_, seen_, 0.0f);
  core_.vreduce(VectorOp::reduce_sum, sum, seen_);
  core_.vcompare(Compare::not_equal, flag, sum, sum);
  out.commit();
  core_.copy(flags.slice(core_.vector_worker(), 1, 0, 1), out.wait().slice(0, 1, 0, 1));
  out.release();
}

bool sums_are_numbers(Core& core, const Tensor& flags) {
  core.sync_all();
  bool numbers = true;
  for (index worker = 0; worker < core.vector_workers(); ++worker)
    numbers = core.scalar_read(flags, worker, 0) == 0 && numbers;
  return numbers;
}

}  // namespace inlay::npu
