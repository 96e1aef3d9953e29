// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/skeleton.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Skeleton<Host>& op, Workspace) {
  return skeleton<isa::INLAY_LEVEL>(parallel, op);
}
// Bytes of scratch that compute() needs: cut them from the workspace with WorkspaceCutter.
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const Skeleton<Host>&) { return 0; }

}  // namespace inlay::cpu
