// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/paged_attention.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const PagedAttention<Host>& op, Workspace workspace) {
  return Kernels<PagedAttention<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const PagedAttention<Host>& op) {
  return Kernels<PagedAttention<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
