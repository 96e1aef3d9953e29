// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/sampling.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Sampling<Host>& op, Workspace workspace) {
  return sampling<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Sampling<Host>& op) {
  return static_cast<std::size_t>(sampling_pieces(parallel, op.logits.extents[0])) *
         SamplingScratch<isa::INLAY_LEVEL>::bytes(op.logits.extents[1]);
}

}  // namespace inlay::cpu
