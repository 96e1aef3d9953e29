// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/gelu.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Gelu<Host>& op, Workspace) {
  return gelu<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const Gelu<Host>&) { return 0; }

}  // namespace inlay::cpu
