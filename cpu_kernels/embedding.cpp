// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/embedding.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Embedding<Host>& op, Workspace) {
  return embedding<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const Embedding<Host>&) { return 0; }

}  // namespace inlay::cpu
