// What becomes of a row's sum, total and maximum: sink, division, lse, the output's type.
//
//   m' = max(m, sink)    l' = l exp(m - m') + exp(sink - m')    out = exp(m - m') sum / l'    lse = m' + log l'
//
// Splits of the keys leave theirs in the workspace, and become one:
//
//   m = max_s m_s    out = sum_s exp(m_s - m) sum_s / sum_s exp(m_s - m) l_s
//
//   maxima, totals   [unit, row]      sums   [unit * rows + row, dim]      a group's splits are units one after another
#pragma once

#include <array>
#include <optional>

#include "npu_kernels/attention/problem.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

class Results {
 public:
  // Of units of `rows` at most, which leave `block` at a time, so many on their way.
  Results(Core& core, const AttentionCall& problem, index rows, index block, std::uint32_t blocks = 2);
  // Block by block between other work of the vector unit: what is given is overwritten, and must stay until the last is
  // stored. The caller has a chain of the vector unit open.
  void begin(const QueryTile& unit, const Tensor& sum, const Tensor& total, const Tensor& maximum);
  void advance();
  void finish() {
    while (stored_rows_ < unit_.rows()) advance();
  }

 private:
  bool coded() const { return to_.out_scale.present(); }
  Tensor coefficient(const Tensor& slot, const NdTensor& from, index rows) const {
    return slot.slice(0, rows, 0, from.extent(1) > 1 ? columns_ : 1);
  }
  void load();
  void store(const QueryTile& part, const Tensor& sum, const Tensor& factor, const Tensor& lse,
             const std::array<Tensor, 2>& coefficients);
  void add_sinks(const Tensor& sinks, const Tensor& sum, const Tensor& total, const Tensor& maximum);

  Core& core_;
  const AttentionCall& problem_;
  const Outputs& to_;
  const index block_, columns_;
  std::optional<TupleRing<3>> loaded_;  // sinks, scales, offsets
  TupleRing<2> stored_;                 // out, lse
  Tensor zero_, none_, factor_, top_;
  QueryTile unit_{};  // that is being stored
  index stored_rows_ = 0;
  Tensor sum_, lse_;
  std::array<Tensor, 2> coefficients_;  // scales and offsets of codes
};

struct PartsWorkspace {
  index rows = 0;  // of a unit, at most
  Tensor sums, maxima, totals;
};
PartsWorkspace parts_workspace(GlobalMemory& memory, const AttentionCall& problem, index units, index rows);

// Of one of several splits, or of all keys: to the workspace, or to the results.
class Finish {
 public:
  // Of `rows` at most, which leave `block` at a time, so many on their way.
  Finish(Core& core, const AttentionCall& problem, const PartsWorkspace& space, index rows, index block,
         std::uint32_t blocks = 2);
  // Rows of `unit`, the number-th of all, from row `first` of it on. What is given is overwritten, and must stay until
  // all is stored (Results).
  void begin(const QueryTile& unit, index number, index first, const Tensor& sum, const Tensor& total,
             const Tensor& maximum);
  void advance() {
    if (results_) results_->advance();
  }
  void finish() {
    if (results_) results_->finish();
  }

 private:
  Core& core_;
  const PartsWorkspace& space_;
  std::optional<Results> results_;
  std::optional<TupleRing<3>> part_;  // sum, total, maximum
};

// After all cores have written theirs: waits for them.
void merge_parts(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                 const PartsWorkspace& space);

// Flags of vector units: has one seen a sum that is no number? (pipeline.cpp)
Tensor nonfinite_flags(GlobalMemory& memory);

class NonfiniteFlag {
 public:
  NonfiniteFlag(Core& core, index columns);
  void look(const Tensor& sums);  // the caller has a chain of the vector unit open
  void store(const Tensor& flag);

 private:
  Core& core_;
  Tensor seen_, of_rows_;  // sums of columns: of all, of some rows
  Ring out_;
};

// The same answer on every stream of every core, after all have stored their flag.
bool sums_are_finite(Core& core, const Tensor& flags);

}  // namespace inlay::npu
