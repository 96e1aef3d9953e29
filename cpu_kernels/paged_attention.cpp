// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/paged_attention.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const PagedAttention<Host>& op, Workspace workspace) {
  return paged_attention<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const PagedAttention<Host>& op) {
  return paged_attention_scratch<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
