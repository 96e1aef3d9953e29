// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/add.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Add<Host>& op, Workspace) {
  return add<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const Add<Host>&) { return 0; }

}  // namespace inlay::cpu
