// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/embedding.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Embedding<Host>& op, Workspace workspace) {
  return Kernels<Embedding<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const Embedding<Host>& op) {
  return Kernels<Embedding<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}

}  // namespace inlay::cpu
