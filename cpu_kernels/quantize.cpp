// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/quantize.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Quantize<Host>& op, Workspace) {
  return quantize<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const Quantize<Host>&) { return 0; }

}  // namespace inlay::cpu
