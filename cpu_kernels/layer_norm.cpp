// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/layer_norm.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const LayerNorm<Host>& op, Workspace workspace) {
  return Kernels<LayerNorm<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const LayerNorm<Host>& op) {
  return Kernels<LayerNorm<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
