// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/sampling.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Sampling<Host>& op, Workspace workspace) {
  return Kernels<Sampling<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Sampling<Host>& op) {
  return Kernels<Sampling<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
