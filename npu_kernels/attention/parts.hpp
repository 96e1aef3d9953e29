// Splits of the keys: what each leaves in the workspace, and how they become one.
//
//   m = max_s m_s    out = sum_s exp(m_s - m) sum_s / sum_s exp(m_s - m) l_s
//
//   maxima, totals   [unit, row]      sums   [unit * rows + row, dim]      a group's splits are units one after another
#pragma once

#include "npu_kernels/attention/problem.hpp"
#include "npu_kernels/attention/results.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

struct PartsWorkspace {
  index rows = 0;  // of a unit, at most
  Tensor sums, maxima, totals;
};
PartsWorkspace parts_workspace(GlobalMemory& memory, const AttentionProblem& problem, index units, index rows);

// Of one of several splits, or of all keys: to the workspace, or to the results.
class Finish {
 public:
  // Of `rows` at most, which leave `block` at a time, so many on their way.
  Finish(Core& core, const AttentionProblem& problem, const PartsWorkspace& space, index rows, index block,
         std::uint32_t blocks = 2);
  // Rows of `unit`, the number-th of all, from row `first` of it on. What is given is overwritten.
  void store(const WorkUnit& unit, index number, index first, const Tensor& sum, const Tensor& total,
             const Tensor& maximum) {
    begin(unit, number, first, sum, total, maximum);
    finish();
  }
  // .. block by block (Results).
  void begin(const WorkUnit& unit, index number, index first, const Tensor& sum, const Tensor& total,
             const Tensor& maximum);
  void advance() {
    if (results_) results_->advance();
  }
  void finish() {
    if (results_) results_->finish();
  }

 private:
  void store_part(index number, index first, const Tensor& sum, const Tensor& total, const Tensor& maximum);

  Core& core_;
  const AttentionProblem& problem_;
  const PartsWorkspace& space_;
  std::optional<Results> results_;
  std::optional<TupleRing<3>> part_;  // sum, total, maximum
};

// After all cores have written theirs: waits for them.
void merge_parts(Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                 const PartsWorkspace& space);

}  // namespace inlay::npu
