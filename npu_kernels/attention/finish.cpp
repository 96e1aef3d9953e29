#include "npu_kernels/attention/finish.hpp"

#include <algorithm>

#include "npu_kernels/attention/softmax.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

TileForm form(const char* name, index rows, index columns, DType dtype = DType::f32) {
  return {name, Space::vector, {std::max<index>(rows, 2), std::max<index>(columns, 2)}, dtype, Layout::nd};
}

}  // namespace

Results::Results(Core& core, const AttentionCall& problem, index rows, index block, std::uint32_t blocks)
    : core_(core),
      problem_(problem),
      to_(problem.bound.to),
      block_(block),
      columns_(problem.v.dim),
      stored_(core.ring<2>("results", {form("out", block, columns_, to_.out.first.dtype), form("lse", block, 1)},
                           {block < rows ? blocks : 1u, Pipe::vector, Pipe::store})) {
  const auto column = [&](const char* name) { return core.alloc(name, Space::vector, {rows, 1}, DType::f32); };
  zero_ = core.alloc("zero", Space::vector, {1, 1}, DType::f32);
  none_ = column("none seen");
  factor_ = column("factor");
  top_ = column("maximum with the sink");
  core.vfill(zero_, 0);
  if (!to_.sinks.present() && !coded()) return;
  const auto coefficients = [&](const char* name, const NdTensor& tensor) {
    return form(name, tensor.present() ? rows : 1, tensor.present() && tensor.extent(1) > 1 ? columns_ : 1);
  };
  loaded_.emplace(core.ring<3>("of the heads",
                               {form("sinks", rows, 1), coefficients("scales of out", to_.out_scale),
                                coefficients("offsets of out", to_.out_offset)},
                               {1, Pipe::load_vector, Pipe::vector}));
}

void Results::load() {
  const auto slots = loaded_->acquire();
  const auto copy = [&](const Tensor& slot, const NdTensor& from) {
    if (from.present())
      core_.copy(by_axes(coefficient(slot, from, unit_.rows())).split(0, unit_.heads), of_heads(from, unit_));
  };
  if (to_.sinks.present()) copy(slots[0], to_.sinks.split(0, 1));
  copy(slots[1], to_.out_scale);
  copy(slots[2], to_.out_offset);
  loaded_->commit();
}

void Results::add_sinks(const Tensor& sinks, const Tensor& sum, const Tensor& total, const Tensor& maximum) {
  const Tensor top = top_.row_slice(0, total.rows()), factor = factor_.row_slice(0, total.rows());
  core_.vbinary(VectorOp::max, top, maximum, sinks);
  core_.vbinary(VectorOp::sub, factor, maximum, top);
  core_.vunary(VectorOp::exp, factor, factor);
  core_.vbinary(VectorOp::mul, total, total, factor);
  core_.vbinary(VectorOp::mul, sum, sum, factor);
  core_.vbinary(VectorOp::sub, factor, sinks, top);
  core_.vunary(VectorOp::exp, factor, factor);
  core_.vbinary(VectorOp::add, total, total, factor);
  core_.vcast(maximum, top);
}

void Results::begin(const QueryTile& unit, const Tensor& sum, const Tensor& total, const Tensor& maximum) {
  unit_ = unit, stored_rows_ = 0;
  const index rows = unit.rows();
  std::array<Tensor, 3> loaded;
  if (loaded_) load(), loaded = loaded_->wait();
  const Tensor factor = factor_.row_slice(0, rows);
  sum_ = sum, lse_ = top_.row_slice(0, rows);
  if (to_.sinks.present()) add_sinks(loaded[0].slice(0, rows, 0, 1), sum, total, maximum);
  if (to_.lse.present()) {
    core_.vunary(VectorOp::log, lse_, total);
    core_.vbinary(VectorOp::add, lse_, lse_, maximum);
  }
  if (columns_ > 0) {
    inverse_of(core_, factor, total, none_.row_slice(0, rows), zero_);
    if (to_.factor != 1) core_.vscalar(VectorOp::mul, factor, factor, to_.factor);
  }
  if (coded()) coefficients_[0] = coefficient(loaded[1], to_.out_scale, rows);
  if (to_.out_offset.present()) coefficients_[1] = coefficient(loaded[2], to_.out_offset, rows);
  if (loaded_ && !coded()) loaded_->release();
}

// Whole queries, or heads of one.
void Results::advance() {
  const index first = stored_rows_, heads = unit_.heads;
  if (first == unit_.rows()) return;
  const index step = unit_.queries > 1 ? std::max<index>(1, block_ / heads) * heads : block_;
  const index rows = std::min(step, unit_.rows() - first);
  const auto of = [&](const Tensor& tensor) { return tensor.row_slice(first, rows); };
  std::array<Tensor, 2> coefficients;
  if (coded()) coefficients[0] = of(coefficients_[0]);
  if (to_.out_offset.present()) coefficients[1] = of(coefficients_[1]);
  store(unit_.part(first, rows), of(sum_), of(factor_), of(lse_), coefficients);
  stored_rows_ += rows;
  if (loaded_ && coded() && stored_rows_ == unit_.rows()) loaded_->release();
}

void Results::store(const QueryTile& part, const Tensor& sum, const Tensor& factor, const Tensor& lse,
                    const std::array<Tensor, 2>& coefficients) {
  const auto slots = stored_.acquire();
  const index rows = part.rows();
  const Tensor out = slots[0].slice(0, rows, 0, columns_);
  if (to_.lse.present()) core_.vcast(slots[1].slice(0, rows, 0, 1), lse);
  if (columns_ > 0) core_.vbinary(VectorOp::mul, coded() ? sum : out, sum, factor);
  if (columns_ > 0 && coded()) {
    core_.vbinary(VectorOp::mul, sum, sum, coefficients[0]);
    if (to_.out_offset.present()) {
      // Codes have no NaN: it counts as 0, and the code is the offset.
      core_.vbinary(VectorOp::add, sum, sum, coefficients[1]);
      core_.vcompare(Compare::equal, out, sum, sum);
      core_.vselect(sum, out, sum, coefficients[1]);
    }
    core_.vcast(out, sum);
  }
  stored_.commit();
  const auto filled = stored_.wait();
  const auto axes = [&](const Tensor& tile, index columns) {
    return by_axes(tile.slice(0, rows, 0, columns)).split(0, part.heads);
  };
  if (columns_ > 0) core_.copy(problem_.rows(to_.out, part), axes(filled[0], columns_));
  if (to_.lse.present()) core_.copy(problem_.rows(to_.lse, part).split(1, 1), axes(filled[1], 1));
  stored_.release();
}

PartsWorkspace parts_workspace(GlobalMemory& memory, const AttentionCall& problem, index units, index rows) {
  if (problem.splits == 1) return {};
  return {.rows = rows,
          .sums = memory.workspace("partial sums", {units * rows, problem.v.dim}, DType::f32),
          .maxima = memory.workspace("partial maxima", {units, rows}, DType::f32),
          .totals = memory.workspace("partial totals", {units, rows}, DType::f32)};
}

Finish::Finish(Core& core, const AttentionCall& problem, const PartsWorkspace& space, index rows, index block,
               std::uint32_t blocks)
    : core_(core), space_(space) {
  if (problem.splits == 1)
    results_.emplace(core, problem, rows, block, blocks);
  else
    part_.emplace(core.ring<3>(
        "part",
        {form("partial sum", rows, problem.v.dim), form("partial total", 1, rows), form("partial maximum", 1, rows)},
        {1, Pipe::vector, Pipe::store}));
}

void Finish::begin(const QueryTile& unit, index number, index first, const Tensor& sum, const Tensor& total,
                   const Tensor& maximum) {
  if (results_) return results_->begin(unit, sum, total, maximum);
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

void merge_parts(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                 const PartsWorkspace& space) {
  core.sync_all();
  if (!core.runs(Pipe::vector)) return;
  const index splits = problem.splits, dim = problem.v.dim;
  const auto room = static_cast<index>(core.device().memory(Space::vector).bytes);
  const index most = std::clamp<index>(room / 8 / (splits * round_up(dim, 32) * 4), 1, problem.group());
  auto parts = core.ring<3>("parts",
                            {form("partial maxima", splits, most), form("partial totals", splits, most),
                             form("partial sums", splits * most, dim)},
                            {2, Pipe::load_vector, Pipe::vector});
  Results results(core, problem, most, most);
  const Tensor top_of_all = core.alloc("maximum over splits", Space::vector, {most, 1}, DType::f32);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);

  index turn = 0;
  for (index number = 0; number < static_cast<index>(units.size()); number += splits) {
    const QueryTile& unit = units[static_cast<std::size_t>(number)];
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
        results.begin(unit.part(query * unit.heads, unit.heads).part(head, rows), part(0), column(partial, 0), maximum);
        results.finish();
        parts.release();
      }
  }
}

Tensor nonfinite_flags(GlobalMemory& memory) {
  const index vectors = memory.device().vector_units();
  return memory.workspace("not numbers", {static_cast<index>(memory.cores()) * vectors, 1}, DType::f32);
}

NonfiniteFlag::NonfiniteFlag(Core& core, index columns)
    : core_(core), out_(core.ring("flag", Space::vector, {1, 2}, DType::f32, {1, Pipe::vector, Pipe::store})) {
  const Shape row{1, std::max<index>(columns, 2)};
  seen_ = core.alloc("sums of all rows", Space::vector, row, DType::f32);
  of_rows_ = core.alloc("sums of rows", Space::vector, row, DType::f32);
  core.vfill(seen_, 0);
}

// What is no number stays none in a sum, and an infinity becomes NaN at the latest when it is multiplied by 0.
void NonfiniteFlag::look(const Tensor& sums) {
  const auto used = [&](const Tensor& row) { return row.slice(0, 1, 0, sums.columns()); };
  core_.vreduce_columns(VectorOp::column_sum, used(of_rows_), sums);
  core_.vbinary(VectorOp::add, used(seen_), used(seen_), used(of_rows_));
}

void NonfiniteFlag::store(const Tensor& flag) {
  const Tensor sum = of_rows_.slice(0, 1, 0, 1), found = out_.acquire().slice(0, 1, 0, 1);
  core_.vscalar(VectorOp::mul, seen_, seen_, 0.0f);
  core_.vreduce(VectorOp::reduce_sum, sum, seen_);
  core_.vcompare(Compare::not_equal, found, sum, sum);
  core_.vfill(seen_, 0);
  out_.commit();
  core_.copy(flag, out_.wait().slice(0, 1, 0, 1));
  out_.release();
}

bool sums_are_finite(Core& core, const Tensor& flags) {
  core.sync_all();
  bool numbers = true;
  for (index worker = 0; worker < core.vector_workers(); ++worker)
    numbers = core.scalar_read(flags, worker, 0) == 0 && numbers;
  return numbers;
}

}  // namespace inlay::npu
