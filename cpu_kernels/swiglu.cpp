// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/swiglu.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Swiglu<Host>& op, Workspace) {
  return swiglu<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const Swiglu<Host>&) { return 0; }

}  // namespace inlay::cpu
