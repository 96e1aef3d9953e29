// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/rms_norm.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const RmsNorm<Host>& op, Workspace) {
  return rms_norm<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const RmsNorm<Host>&) { return 0; }

}  // namespace inlay::cpu
