// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/quantize.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Quantize<Host>& op, Workspace workspace) {
  return Kernels<Quantize<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Quantize<Host>& op) {
  return Kernels<Quantize<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
