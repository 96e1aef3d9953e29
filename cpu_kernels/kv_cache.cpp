// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/kv_cache.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const ReshapeAndCache<Host>& op, Workspace) {
  return kv::reshape_and_cache<isa::INLAY_LEVEL>(parallel, op);
}
template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const CopyBlocks<Host>& op, Workspace) {
  return kv::copy_blocks<isa::INLAY_LEVEL>(parallel, op);
}
template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const SwapBlocks<Host>& op, Workspace) {
  return kv::swap_blocks<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const ReshapeAndCache<Host>&) { return 0; }
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const CopyBlocks<Host>&) { return 0; }
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const SwapBlocks<Host>&) { return 0; }

}  // namespace inlay::cpu
