// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/moe_routing.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const MoeRouting<Host>& op, Workspace workspace) {
  return Kernels<MoeRouting<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const MoeRouting<Host>& op) {
  return Kernels<MoeRouting<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
