// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/rope.hpp"

namespace inlay::cpu {

template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const RopeTable<Host>& op, Workspace) {
  return rope_table<isa::INLAY_LEVEL>(parallel, op);
}
template <> Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const Rope<Host>& op, Workspace) {
  return rope<isa::INLAY_LEVEL>(parallel, op);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const RopeTable<Host>&) { return 0; }
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const Rope<Host>&) { return 0; }

}  // namespace inlay::cpu
