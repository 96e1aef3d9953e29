// linear_w4a16 with a given form of the codes. The operator itself takes the form that is faster on the machine
// (simd/fast_subnormals.hpp); a test takes each in turn, or no machine would test both.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include "cpu_kernels/simd/code_form.hpp"

namespace inlay::cpu {

// One specialisation per level, in cpu_kernels/linear_w4a16.cpp.
template <class Level>
Status compute_as(simd::CodeForm form, const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace);

}  // namespace inlay::cpu
