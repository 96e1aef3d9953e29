// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/flash_attention.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const FlashAttention<Host>& op, Workspace workspace) {
  return Kernels<FlashAttention<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const FlashAttention<Host>& op) {
  return Kernels<FlashAttention<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
