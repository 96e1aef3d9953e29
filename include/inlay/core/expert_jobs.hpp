// How threads share the experts of a mixture. Of experts with many rows each has all threads, one behind the other.
// Where they have few, as in decoding, all of them are one job: tasks take panels of channels of whichever expert
// comes, each by itself, so that threads meet once and not once an expert.
//
//   panels      | expert 2: 0 1 .. 63 | expert 5: 0 1 .. 63 | expert 6: 0 1 .. 63 |      those with rows
//   tasks       | 0        | 1        | 2         | 3       | ..
#pragma once

#include <algorithm>

#include <inlay/core/experts.hpp>
#include <inlay/core/layout.hpp>
#include <inlay/core/parallel.hpp>
#include <inlay/core/workspace.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

// Of `op`, which has experts. `scratch(parallel, part)` and `compute(parallel, part, workspace)` are the kernels'.
template <class Op, class Scratch> class ExpertJobs {
 public:
  ExpertJobs(const Parallel& parallel, const Op& op, const Scratch& scratch)
      : parallel_(parallel), op_(op), scratch_(scratch), panels_(groups_of(op.y.extents[1], panel)) {
    for (index e = 0; e < op.experts(); ++e) active_ += rows_of_expert(op, e).count > 0;
    if (op.x.extents[0] > few_rows * active_ || parallel.width <= 1) return;
    for_each_field(op, [&](const auto& field, const auto& view) {
      if constexpr (ViewLike<std::remove_cvref_t<decltype(view)>>)
        if (!field.is_written() && field.name != "x")
          work_.bytes += static_cast<double>(byte_size(view.dtype, view.size()));
    });
    work_.bytes *= static_cast<double>(active_) / static_cast<double>(op.experts());
    tasks_ = parallel.pieces(active_ * panels_, work_);
    visit_parts([&](const Op& part) { slot_ = std::max(slot_, padded(scratch_(alone(), part))); });
  }

  std::size_t scratch_bytes() const {
    if (tasks_ > 0) return static_cast<std::size_t>(tasks_) * slot_;
    std::size_t most = 0;
    visit_parts([&](const Op& part) { most = std::max(most, scratch_(parallel_, part)); });
    return most;
  }

  template <class Compute> Status compute(Workspace workspace, Compute&& compute) const {
    if (tasks_ == 0) {
      Status status;
      visit_parts([&](const Op& part) {
        if (status.ok()) status = compute(parallel_, part, workspace);
      });
      return status;
    }
    parallel_(tasks_, work_, [&](index task) {
      const Workspace own = workspace.subspan(static_cast<std::size_t>(task) * slot_, slot_);
      const index all = active_ * panels_, end = all * (task + 1) / tasks_;
      index at = all * task / tasks_, first = 0;  // panels of all; of the first panel of an expert
      for (index e = 0; e < op_.experts() && at < end; ++e) {
        const ExpertRows rows = rows_of_expert(op_, e);
        if (rows.count == 0) continue;
        if (const index count = std::min(end, first + panels_) - at; count > 0) {
          // Whatever a kernel declines it has declined of the whole operator.
          static_cast<void>(compute(alone(), channel_part(expert_part(op_, e, rows), at - first, count), own).ok());
          at += count;
        }
        first += panels_;
      }
    });
    return {};
  }

 private:
  static constexpr index panel = 16;    // channels, of all packed forms
  static constexpr index few_rows = 4;  // of an expert, on average

  static Parallel alone() { return {}; }
  static std::size_t padded(std::size_t bytes) {
    return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  }
  // What each expert that has rows computes.
  template <class Visit> void visit_parts(Visit&& visit) const {
    for (index e = 0; e < op_.experts(); ++e)
      if (const ExpertRows rows = rows_of_expert(op_, e); rows.count > 0) visit(expert_part(op_, e, rows));
  }

  const Parallel& parallel_;
  const Op& op_;
  const Scratch& scratch_;
  index panels_, active_ = 0, tasks_ = 0;  // tasks 0: one expert behind the other
  Work work_ = {};
  std::size_t slot_ = 0;
};

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
