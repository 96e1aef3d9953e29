// The CPU backend: kernels built for several ISA levels, one chosen when Cpu is made.
#pragma once

#include <span>
#include <string_view>
#include <type_traits>

#include <inlay/core/backend.hpp>
#include <inlay/core/expert_jobs.hpp>
#include <inlay/core/isa.hpp>
#include <inlay/core/parallel.hpp>

namespace inlay {

// Levels that this build holds and this machine executes, ascending.
std::span<const Isa> available_isas();
// The one of that name; an error names it and those that there are.
Expected<Isa> available_isa(std::string_view name);

class Cpu {
 public:
  using Space = Host;
  static constexpr std::string_view name = "cpu";
  static constexpr bool groups_experts = true;

  // The best available level, or the one that INLAY_ISA names if it is available; the process's own
  // threads (inlay/core/threads.hpp).
  Cpu();
  // A level that is not available falls back to the best one below it: see isa().
  explicit Cpu(Isa isa);
  explicit Cpu(Parallel parallel);
  Cpu(Isa isa, Parallel parallel);

  Isa isa() const { return isa_; }
  const Parallel& parallel() const { return parallel_; }

 private:
  Isa isa_;
  Parallel parallel_;
};

namespace cpu {

// One specialisation per operator and level, in cpu_kernels/<op>.cpp. `op` has passed its check.
template <class Level, class Op> Status compute(const Parallel& parallel, const Op& op, Workspace workspace);
template <class Level, class Op> std::size_t scratch_bytes(const Parallel& parallel, const Op& op);

// Operators whose kernels use dot-product instructions name the levels that bring them, and are built for
// those too; elsewhere a level that changes nothing is the one below it.
template <class Op> constexpr bool built_for(Isa level) {
  if (!is_built(level)) return false;
  if constexpr (requires { Op::dot_levels; })
    for (Isa dots : Op::dot_levels)
      if (dots == level) return true;
  return level == Isa::scalar || level == Isa::avx2 || level == Isa::avx512 || level == Isa::neon;
}

// The level below all others: of a whole build the scalar one.
using LowestLevel =
    std::conditional_t<is_built(Isa::scalar), isa::scalar,
                       std::conditional_t<is_built(Isa::avx2), isa::avx2,
                                          std::conditional_t<is_built(Isa::neon), isa::neon, isa::avx512>>>;

template <class Op, class Call> auto dispatch(Isa isa, Call&& call) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx512_bf16:
      if constexpr (built_for<Op>(Isa::avx512_bf16)) return call(isa::avx512_bf16{});
      [[fallthrough]];
    case Isa::avx512_vnni:
      if constexpr (built_for<Op>(Isa::avx512_vnni)) return call(isa::avx512_vnni{});
      [[fallthrough]];
    case Isa::avx512:
      if constexpr (built_for<Op>(Isa::avx512)) return call(isa::avx512{});
      [[fallthrough]];
    case Isa::avx2:
      if constexpr (built_for<Op>(Isa::avx2)) return call(isa::avx2{});
      [[fallthrough]];
#elif defined(__aarch64__)
    case Isa::neon_i8mm:
      if constexpr (built_for<Op>(Isa::neon_i8mm)) return call(isa::neon_i8mm{});
      [[fallthrough]];
    case Isa::neon_dotprod:
      if constexpr (built_for<Op>(Isa::neon_dotprod)) return call(isa::neon_dotprod{});
      [[fallthrough]];
    case Isa::neon:
      if constexpr (built_for<Op>(Isa::neon)) return call(isa::neon{});
      [[fallthrough]];
#endif
    default: break;
  }
  return call(LowestLevel{});
}

}  // namespace cpu

// The CPU covers every contract whole.
template <class Op> Status supports(const Cpu&, const Op&) { return {}; }

template <class Op> std::size_t scratch_bytes(const Cpu& cpu, const Op& op) {
  const auto kernels = [&](const Parallel& parallel, const Op& part) {
    return cpu::dispatch<Op>(cpu.isa(), [&]<class Level>(Level) { return cpu::scratch_bytes<Level>(parallel, part); });
  };
  if constexpr (TakesExperts<Op>)
    if (has_experts(op)) return ExpertJobs(cpu.parallel(), op, kernels).scratch_bytes();
  return kernels(cpu.parallel(), op);
}

template <class Op> Status compute(const Cpu& cpu, const Op& op, Workspace workspace) {
  const auto kernels = [&](const Parallel& parallel, const Op& part, Workspace own) {
    return cpu::dispatch<Op>(cpu.isa(), [&]<class Level>(Level) { return cpu::compute<Level>(parallel, part, own); });
  };
  if constexpr (TakesExperts<Op>)
    if (has_experts(op)) {
      const auto scratch = [&](const Parallel& parallel, const Op& part) {
        return cpu::dispatch<Op>(cpu.isa(),
                                 [&]<class Level>(Level) { return cpu::scratch_bytes<Level>(parallel, part); });
      };
      return ExpertJobs(cpu.parallel(), op, scratch).compute(workspace, kernels);
    }
  return kernels(cpu.parallel(), op, workspace);
}

}  // namespace inlay
