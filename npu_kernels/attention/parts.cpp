#include "npu_kernels/attention/parts.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

RowWindow window_of(const AttentionProblem& problem, const WorkUnit& unit) {
  const Sequence& s = problem.sequences[static_cast<std::size_t>(unit.sequence)];
  return {s.q_outer, s.q_row + unit.query, unit.queries, unit.head, unit.heads, 0, problem.v.dim};
}

}  // namespace

PartsWorkspace parts_workspace(GlobalMemory& memory, const AttentionProblem& problem, index units, index rows) {
  if (problem.splits == 1) return {};
  return {.rows = rows,
          .sums = memory.workspace("partial sums", {units * rows, problem.v.dim}, DType::f32),
          .maxima = memory.workspace("partial maxima", {units, rows}, DType::f32),
          .totals = memory.workspace("partial totals", {units, rows}, DType::f32)};
}

Finish::Finish(Core& core, const AttentionProblem& problem, const PartsWorkspace& space, index rows, index block,
               std::uint32_t blocks)
    : core_(core), problem_(problem), space_(space) {
  if (problem.splits == 1) {
    results_.emplace(core, problem.to, rows, block, problem.v.dim, blocks);
    return;
  }
  const auto of = [](index n) { return std::max<index>(n, 2); };
  part_.emplace(core.ring<3>("part",
                             {{{"partial sum", Space::vector, {of(rows), of(problem.v.dim)}, DType::f32, Layout::nd},
                               {"partial total", Space::vector, {1, of(rows)}, DType::f32, Layout::nd},
                               {"partial maximum", Space::vector, {1, of(rows)}, DType::f32, Layout::nd}}},
                             {1, Pipe::vector, Pipe::store}));
}

void Finish::begin(const WorkUnit& unit, index number, index first, const Tensor& sum, const Tensor& total,
                   const Tensor& maximum) {
  if (results_) return results_->begin(window_of(problem_, unit), sum, total, maximum);
  store_part(number, first, sum, total, maximum);
}

void Finish::store_part(index number, index first, const Tensor& sum, const Tensor& total, const Tensor& maximum) {
  const index rows = sum.rows();
  const auto row = [&](const Tensor& slot) { return slot.slice(0, 1, 0, rows); };
  const auto slots = part_->acquire();
  core_.vcast(slots[0].slice(0, rows, 0, sum.columns()), sum);
  core_.vcast(row(slots[1]).reshape({rows, 1}), total);
  core_.vcast(row(slots[2]).reshape({rows, 1}), maximum);
  part_->commit();
  const auto filled = part_->wait();
  core_.copy(space_.sums.row_slice(number * space_.rows + first, rows), filled[0].slice(0, rows, 0, sum.columns()));
  core_.copy(space_.totals.slice(number, 1, first, rows), row(filled[1]));
  core_.copy(space_.maxima.slice(number, 1, first, rows), row(filled[2]));
  part_->release();
}

void merge_parts(Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                 const PartsWorkspace& space) {
  core.sync_all();
  if (!core.runs(Pipe::vector)) return;
  const index splits = problem.splits, dim = problem.v.dim;
  const auto room = static_cast<index>(core.device().memory(Space::vector).bytes);
  const index most = std::clamp<index>(room / 8 / (splits * round_up(dim, 32) * 4), 1, problem.group());
  const auto of = [](index n) { return std::max<index>(n, 2); };
  auto parts = core.ring<3>("parts",
                            {{{"partial maxima", Space::vector, {splits, of(most)}, DType::f32, Layout::nd},
                              {"partial totals", Space::vector, {splits, of(most)}, DType::f32, Layout::nd},
                              {"partial sums", Space::vector, {of(splits * most), of(dim)}, DType::f32, Layout::nd}}},
                            {2, Pipe::load_vector, Pipe::vector});
  Results results(core, problem.to, most, most, dim);
  const Tensor top_of_all = core.alloc("maximum over splits", Space::vector, {most, 1}, DType::f32);
  const Chain chain = core.chain(Pipe::vector);

  index turn = 0;
  for (index number = 0; number < static_cast<index>(units.size()); number += splits) {
    const WorkUnit& unit = units[static_cast<std::size_t>(number)];
    for (index query = 0; query < unit.queries; ++query)
      for (index head = 0; head < unit.heads; head += most) {
        if (turn++ % core.vector_workers() != core.vector_worker()) continue;
        const index rows = std::min(most, unit.heads - head), first = query * unit.heads + head;
        const auto [maxima, totals, sums] = parts.acquire();
        core.copy(maxima.slice(0, splits, 0, rows), space.maxima.slice(number, splits, first, rows));
        core.copy(totals.slice(0, splits, 0, rows), space.totals.slice(number, splits, first, rows));
        for (index s = 0; s < splits; ++s)
          core.copy(sums.slice(s * rows, rows, 0, dim), space.sums.row_slice((number + s) * space.rows + first, rows));
        parts.commit();
        const auto filled = parts.wait();
        const Tensor tops = filled[0], partial = filled[1], sum = filled[2];
        const auto column = [&](const Tensor& tensor, index s) {
          return tensor.slice(s, 1, 0, rows).reshape({rows, 1});
        };
        const auto part = [&](index s) { return sum.slice(s * rows, rows, 0, dim); };
        const Tensor maximum = top_of_all.row_slice(0, rows);
        core.vcast(maximum, column(tops, 0));
        for (index s = 1; s < splits; ++s) core.vbinary(VectorOp::max, maximum, maximum, column(tops, s));
        for (index s = 0; s < splits; ++s) {
          const Tensor weight = column(tops, s), total = column(partial, s);
          core.vbinary(VectorOp::sub, weight, weight, maximum);
          core.vunary(VectorOp::exp, weight, weight);
          core.vbinary(VectorOp::mul, total, total, weight);
          core.vbinary(VectorOp::mul, part(s), part(s), weight);
          if (s == 0) continue;
          core.vbinary(VectorOp::add, column(partial, 0), column(partial, 0), total);
          core.vbinary(VectorOp::add, part(0), part(0), part(s));
        }
        RowWindow window = window_of(problem, unit);
        window.row += query, window.rows = 1, window.head += head, window.heads = rows;
        results.store(window, part(0), column(partial, 0), maximum);
        parts.release();
      }
  }
}

}  // namespace inlay::npu
