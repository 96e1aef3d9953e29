#include "npu_kernels/attention/finite_sums.hpp"

#include <algorithm>

#include "npu_kernels/attention/matrix_tiles.hpp"

namespace inlay::npu {

Tensor not_numbers_flags(GlobalMemory& memory) {
  const index vectors = memory.device().vector_units();
  return memory.workspace("not numbers", {static_cast<index>(memory.cores()) * vectors, 1}, DType::f32);
}

FiniteSums::FiniteSums(Core& core, index columns)
    : core_(core), out_(core.ring("flag", Space::vector, {1, 2}, DType::f32, {1, Pipe::vector, Pipe::store})) {
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

void FiniteSums::store(const Tensor& flag) {
  const Tensor sum = of_rows_.slice(0, 1, 0, 1), found = out_.acquire().slice(0, 1, 0, 1);
  core_.vscalar(VectorOp::mul, seen_, seen_, 0.0f);
  core_.vreduce(VectorOp::reduce_sum, sum, seen_);
  core_.vcompare(Compare::not_equal, found, sum, sum);
  core_.vfill(seen_, 0);
  out_.commit();
  core_.copy(flag, out_.wait().slice(0, 1, 0, 1));
  out_.release();
}

bool sums_are_numbers(Core& core, const Tensor& flags) {
  core.sync_all();
  bool numbers = true;
  for (index worker = 0; worker < core.vector_workers(); ++worker)
    numbers = core.scalar_read(flags, worker, 0) == 0 && numbers;
  return numbers;
}

QueriesAlone queries_alone(GlobalMemory& memory, const AttentionProblem& problem, const MatrixPlan& plan, index rows,
                           std::uint32_t cores) {
  QueriesAlone queries{units_of(problem, std::min(rows, problem.group())), plan};
  queries.plan.cache = {};
  queries.plan.shares = shares_of(queries.units, cores);
  const index flags = static_cast<index>(queries.units.size()) * memory.device().vector_units();
  queries.plan.not_numbers = memory.workspace("queries that are not numbers", {flags, 1}, DType::f32);
  queries.plan.flags_of_units = true;
  return queries;
}

std::vector<WorkUnit> not_numbers(Core& core, const QueriesAlone& queries) {
  core.sync_all();
  std::vector<WorkUnit> found;
  if (!core.runs(Pipe::vector)) return found;
  const index vectors = core.vector_dim();
  for (std::size_t i = 0; i < queries.units.size(); ++i) {
    const WorkUnit& unit = queries.units[i];
    bool numbers = true;
    for (index v = 0; v < vectors && unit.begin < unit.end; ++v) {
      const index flag = static_cast<index>(i) * vectors + v;
      numbers = core.scalar_read(queries.plan.not_numbers, flag, 0) == 0 && numbers;
    }
    if (!numbers) found.push_back(unit);
  }
  return found;
}

}  // namespace inlay::npu
