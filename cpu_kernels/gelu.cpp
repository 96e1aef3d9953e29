// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/gelu.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Gelu<Host>& op, Workspace workspace) {
  return Kernels<Gelu<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Gelu<Host>& op) {
  return Kernels<Gelu<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
