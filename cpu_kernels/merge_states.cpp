// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/merge_states.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const MergeStates<Host>& op, Workspace workspace) {
  return Kernels<MergeStates<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const MergeStates<Host>& op) {
  return Kernels<MergeStates<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
