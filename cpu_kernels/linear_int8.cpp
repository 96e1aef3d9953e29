// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/linear_int8.hpp"

namespace inlay::cpu {

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const LinearInt8<Host>& op, Workspace workspace) {
  return int8::run<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel&, const LinearInt8<Host>& op) {
  return int8::Scratch<isa::INLAY_LEVEL>(op).bytes();
}

}  // namespace inlay::cpu
