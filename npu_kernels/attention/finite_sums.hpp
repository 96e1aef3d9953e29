// Where rows see different keys, products on the matrix unit give a hidden key the weight 0, and 0 times an infinity of
// V is NaN. So it shows in the sums: as long as these are numbers no hidden key has had a part in them. If one is not,
// or a visible key made it so, the whole is done once more, in a way in which no row depends on its neighbours:
//
//   a prompt   by the matrix unit, each query for itself: no key behind it is multiplied, as in a chunk of one query
//              .. and where that is no number either, as rules hide keys before its last, by the vector units
//   a token    by the vector units
//
// There a hidden key's V is taken out by selection. So are scores that f16 does not hold (`activations f16`).
#pragma once

#include "npu_kernels/attention/attend_matrix.hpp"
#include "npu_kernels/attention/problem.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

// A flag for each vector unit.
Tensor not_numbers_flags(GlobalMemory& memory);

class FiniteSums {
 public:
  FiniteSums(Core& core, index columns);
  void look(const Tensor& sums);  // the caller has a chain of the vector unit open
  void store(const Tensor& flag);

 private:
  Core& core_;
  Tensor seen_, of_rows_;  // sums of columns: of all, of some rows
  Ring out_;
};

// The same answer on every stream of every core, after all have stored their flag.
bool sums_are_numbers(Core& core, const Tensor& flags);

// Units of `rows` at most, of one query each.
QueriesAlone queries_alone(GlobalMemory& memory, const AttentionProblem& problem, const MatrixPlan& plan, index rows,
                           std::uint32_t cores);
// .. those whose sums are no numbers either.
std::vector<WorkUnit> not_numbers(Core& core, const QueriesAlone& queries);

}  // namespace inlay::npu
