// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/rms_norm.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const RmsNorm<Host>& op, Workspace workspace) {
  return Kernels<RmsNorm<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const RmsNorm<Host>& op) {
  return Kernels<RmsNorm<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
