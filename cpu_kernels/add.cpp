// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/add.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Add<Host>& op, Workspace workspace) {
  return Kernels<Add<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Add<Host>& op) {
  return Kernels<Add<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
