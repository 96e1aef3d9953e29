// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/incre_flash_attention.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const IncreFlashAttention<Host>& op, Workspace workspace) {
  return Kernels<IncreFlashAttention<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const IncreFlashAttention<Host>& op) {
  return Kernels<IncreFlashAttention<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
