// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/merge_states.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const MergeStates<Host>& op, Workspace workspace) {
  return merge_states<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const MergeStates<Host>& op) {
  return merge_states_scratch(op);
}

}  // namespace inlay::cpu
