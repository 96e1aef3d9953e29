// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/linear_w4a16.hpp"

namespace inlay::cpu {

extern template void w4_exact_float<isa::INLAY_LEVEL>(const Parallel&, const LinearW4a16<Host>&, Workspace,
                                                      simd::CodeForm);

template <>
Status compute<isa::INLAY_LEVEL>(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  return Kernels<LinearW4a16<Host>>::compute<isa::INLAY_LEVEL>(parallel, op, workspace);
}
template <> std::size_t scratch_bytes<isa::INLAY_LEVEL>(const Parallel& parallel, const LinearW4a16<Host>& op) {
  return Kernels<LinearW4a16<Host>>::scratch_bytes<isa::INLAY_LEVEL>(parallel, op);
}
template <>
Status compute_as<isa::INLAY_LEVEL>(simd::CodeForm form, const Parallel& parallel, const LinearW4a16<Host>& op,
                                    Workspace workspace) {
  return linear_w4a16<isa::INLAY_LEVEL>(parallel, op, workspace, form);
}

}  // namespace inlay::cpu
