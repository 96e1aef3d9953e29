// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/dequantize.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Dequantize<Host>& op, Workspace) {
  return dequantize<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const Dequantize<Host>&) { return 0; }

}  // namespace inlay::cpu
