// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/swiglu.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Swiglu<Host>& op, Workspace workspace) {
  return Kernels<Swiglu<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Swiglu<Host>& op) {
  return Kernels<Swiglu<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
