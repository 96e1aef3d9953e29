// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/dequantize.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Dequantize<Host>& op, Workspace workspace) {
  return Kernels<Dequantize<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Dequantize<Host>& op) {
  return Kernels<Dequantize<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
