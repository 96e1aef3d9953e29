// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/linear_int8.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const LinearInt8<Host>& op, Workspace workspace) {
  return Kernels<LinearInt8<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const LinearInt8<Host>& op) {
  return Kernels<LinearInt8<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
