// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/moe_combine.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const MoeCombine<Host>& op, Workspace workspace) {
  return Kernels<MoeCombine<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const MoeCombine<Host>& op) {
  return Kernels<MoeCombine<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
