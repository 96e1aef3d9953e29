// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/linear.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Linear<Host>& op, Workspace workspace) {
  return Kernels<Linear<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Linear<Host>& op) {
  return Kernels<Linear<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
