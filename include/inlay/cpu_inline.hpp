// The CPU kernels as headers, compiled for the instruction set of the including translation unit:
// -march=native, or whatever that unit is built with. Needs this project's headers, xsimd's, and nothing to
// link; threads come from the caller (inlay::threads are in the library).
//
//   #include <inlay/cpu_inline.hpp>
//   inlay::CpuInline cpu(inlay::from_pool(my_pool, 8));
//   auto status = inlay::run(cpu, inlay::RmsNorm<inlay::Host>{.x = x, .weight = w, .y = y});
//
// Everything that depends on the instruction set has internal linkage, so that two units built with
// different flags can live in one program: the functions below take part in it by their argument.
#pragma once

#include <inlay/cpu.hpp>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"  // a unit rarely runs every operator
#endif

namespace inlay {
namespace isa {
namespace {
#if defined(__AVX512VNNI__) && defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512VL__)
struct native : avx512_bf16 {};
#elif defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
struct native : avx512_vnni {};
#elif defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
struct native : avx512 {};
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
struct native : avx2 {};
#elif defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)
struct native : neon_i8mm {};
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
struct native : neon_dotprod {};
#elif defined(__aarch64__)
struct native : neon {};
#else
struct native : scalar {};
#endif
}  // namespace
}  // namespace isa

namespace {

// The CPU backend of this translation unit.
class CpuInline {
 public:
  using Space = Host;
  static constexpr std::string_view name = "cpu";

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
  return cpu::scratch_bytes<isa::native>(cpu.parallel(), op);
}
template <class Op> Status compute(const CpuInline& cpu, const Op& op, Workspace workspace) {
  return cpu::compute<isa::native>(cpu.parallel(), op, workspace);
}

}  // namespace inlay

// One line per operator; the build refuses an operator of INLAY_OPS that is missing here.
#define INLAY_LEVEL native
#include "cpu_kernels/add.cpp"
#include "cpu_kernels/dequantize.cpp"
#include "cpu_kernels/embedding.cpp"
#include "cpu_kernels/flash_attention.cpp"
#include "cpu_kernels/gelu.cpp"
#include "cpu_kernels/incre_flash_attention.cpp"
#include "cpu_kernels/kv_cache.cpp"
#include "cpu_kernels/linear.cpp"
#include "cpu_kernels/linear_int8.cpp"
#include "cpu_kernels/linear_w4a16.cpp"
#include "cpu_kernels/merge_states.cpp"
#include "cpu_kernels/paged_attention.cpp"
#include "cpu_kernels/quantize.cpp"
#include "cpu_kernels/rms_norm.cpp"
#include "cpu_kernels/rope.cpp"
#include "cpu_kernels/sampling.cpp"
#include "cpu_kernels/softmax.cpp"
#include "cpu_kernels/swiglu.cpp"
#undef INLAY_LEVEL

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
