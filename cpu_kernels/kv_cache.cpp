// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/kv_cache.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const ReshapeAndCache<Host>& op, Workspace workspace) {
  return Kernels<ReshapeAndCache<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const ReshapeAndCache<Host>& op) {
  return Kernels<ReshapeAndCache<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}
template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const CopyBlocks<Host>& op, Workspace workspace) {
  return Kernels<CopyBlocks<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const CopyBlocks<Host>& op) {
  return Kernels<CopyBlocks<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}
template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const SwapBlocks<Host>& op, Workspace workspace) {
  return Kernels<SwapBlocks<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const SwapBlocks<Host>& op) {
  return Kernels<SwapBlocks<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
