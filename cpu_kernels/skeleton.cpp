// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/skeleton.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Skeleton<Host>& op, Workspace workspace) {
  return Kernels<Skeleton<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Skeleton<Host>& op) {
  return Kernels<Skeleton<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
