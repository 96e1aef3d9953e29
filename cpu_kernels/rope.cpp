// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/rope.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const RopeTable<Host>& op, Workspace workspace) {
  return Kernels<RopeTable<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const RopeTable<Host>& op) {
  return Kernels<RopeTable<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}
template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Rope<Host>& op, Workspace workspace) {
  return Kernels<Rope<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Rope<Host>& op) {
  return Kernels<Rope<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
