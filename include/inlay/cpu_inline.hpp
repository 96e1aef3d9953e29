// The CPU kernels as headers, compiled for the instruction set of the including translation unit:
// -march=native, or whatever that unit is built with. Needs this project's headers, xsimd's, and nothing to
// link; threads come from the caller (inlay::threads are in the library).
//
//   #include <inlay/cpu_inline.hpp>
//   inlay::CpuInline cpu(inlay::from_pool(my_pool, 8));
//   auto status = inlay::run(cpu, inlay::RmsNorm<inlay::Host>{.x = x, .weight = w, .y = y});
//
// A unit compiles the operators that it runs, and no others. Units built with different flags can live in one program:
// the kernels have internal linkage by their level, the functions below by their backend, and what else is a function
// has its unit's instruction set in its name (inlay/core/inline.hpp).
#pragma once

#include <inlay/core/isa.hpp>
#include <inlay/core/parallel.hpp>

// Of the kernels a caller wants no warnings. (Arrays have as many elements as an int template parameter says, which g++
// takes for a change of sign.)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
// One line per operator; the build refuses an operator of INLAY_OPS that is missing here.
#include "cpu_kernels/add.hpp"
#include "cpu_kernels/dequantize.hpp"
#include "cpu_kernels/embedding.hpp"
#include "cpu_kernels/flash_attention.hpp"
#include "cpu_kernels/gelu.hpp"
#include "cpu_kernels/incre_flash_attention.hpp"
#include "cpu_kernels/kv_cache.hpp"
#include "cpu_kernels/layer_norm.hpp"
#include "cpu_kernels/linear.hpp"
#include "cpu_kernels/linear_int8.hpp"
#include "cpu_kernels/linear_w4a16.hpp"
#include "cpu_kernels/merge_states.hpp"
#include "cpu_kernels/moe_combine.hpp"
#include "cpu_kernels/moe_routing.hpp"
#include "cpu_kernels/paged_attention.hpp"
#include "cpu_kernels/quantize.hpp"
#include "cpu_kernels/rms_norm.hpp"
#include "cpu_kernels/rope.hpp"
#include "cpu_kernels/sampling.hpp"
#include "cpu_kernels/softmax.hpp"
#include "cpu_kernels/swiglu.hpp"
#pragma GCC diagnostic pop

namespace inlay {
namespace isa {
namespace {
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__FMA__) && defined(__F16C__)
#if defined(__AVX512VNNI__) && defined(__AVX512BF16__)
using own_level = avx512_bf16;
#elif defined(__AVX512VNNI__)
using own_level = avx512_vnni;
#else
using own_level = avx512;
#endif
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
using own_level = avx2;
#elif defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)
using own_level = neon_i8mm;
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
using own_level = neon_dotprod;
#elif defined(__aarch64__)
using own_level = neon;
#else
using own_level = scalar;
#endif
// Not the library's tag of that level, whose kernels are built with other flags.
struct native : own_level {
  using without_dots = native;
};
}  // namespace
}  // namespace isa

namespace {

// The CPU backend of this translation unit.
class CpuInline {
 public:
  using Space = Host;
  static constexpr std::string_view name = "cpu";
  static constexpr bool groups_experts = true;

  explicit CpuInline(Parallel parallel = serial()) : parallel_(parallel) {
    if (parallel_.width < 1) parallel_.width = 1;  // kernels divide by it
  }
  const Parallel& parallel() const { return parallel_; }

 private:
  Parallel parallel_;
};

}  // namespace

template <class Op> Status supports(const CpuInline&, const Op&) { return {}; }
template <class Op> std::size_t scratch_bytes(const CpuInline& cpu, const Op& op) {
  const auto kernels = [](const Parallel& parallel, const Op& part) {
    return cpu::Kernels<Op>::template scratch_bytes<isa::native>(parallel, part);
  };
  if constexpr (TakesExperts<Op>)
    if (has_experts(op)) return ExpertJobs(cpu.parallel(), op, kernels).scratch_bytes();
  return kernels(cpu.parallel(), op);
}
template <class Op> Status compute(const CpuInline& cpu, const Op& op, Workspace workspace) {
  const auto kernels = [](const Parallel& parallel, const Op& part, Workspace own) {
    return cpu::Kernels<Op>::template compute<isa::native>(parallel, part, own);
  };
  if constexpr (TakesExperts<Op>)
    if (has_experts(op)) {
      const auto scratch = [](const Parallel& parallel, const Op& part) {
        return cpu::Kernels<Op>::template scratch_bytes<isa::native>(parallel, part);
      };
      return ExpertJobs(cpu.parallel(), op, scratch).compute(workspace, kernels);
    }
  return kernels(cpu.parallel(), op, workspace);
}

}  // namespace inlay
