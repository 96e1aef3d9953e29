// exact_float of linear_w4a16, beside cpu_kernels/linear_w4a16.cpp: each takes a compiler half a minute. Built once per
// ISA level but for those whose dot products it does not use.
#include "cpu_kernels/linear_w4a16.hpp"

namespace inlay::cpu {

template void w4_exact_float<isa::INLAY_LEVEL>(const Parallel&, const LinearW4a16<Host>&, Workspace, simd::CodeForm);

}  // namespace inlay::cpu
