// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/softmax.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Softmax<Host>& op, Workspace workspace) {
  return Kernels<Softmax<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Softmax<Host>& op) {
  return Kernels<Softmax<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
