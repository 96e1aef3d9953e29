// Where rows see different keys, products on the matrix unit give a hidden key the weight 0, and 0 times an infinity of
// V is NaN. So it shows in the sums: as long as these are numbers no hidden key has had a part in them. If one is not,
// or a visible key made it so, the vector units do the whole once more: there a hidden key's V is taken out by
// selection.
#pragma once

#include "npu_kernels/attention/problem.hpp"
#include "npu_kernels/machine/run/core.hpp"

namespace inlay::npu {

// A flag for each vector unit.
Tensor not_numbers_flags(GlobalMemory& memory);

class FiniteSums {
 public:
  FiniteSums(Core& core, index columns);
  void look(const Tensor& sums);  // the caller has a chain of the vector unit open
  void store(const Tensor& flags);

 private:
  Core& core_;
  Tensor seen_, of_rows_;  // sums of columns: of all, of some rows
};

// The same answer on every stream of every core, after all have stored their flag.
bool sums_are_numbers(Core& core, const Tensor& flags);

}  // namespace inlay::npu
