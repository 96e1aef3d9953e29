// Which levels this machine executes, and which one a Cpu takes. Built for the baseline.
#include <inlay/core/threads.hpp>
#include <inlay/cpu.hpp>
#include <inlay/cpu_limits.hpp>

#include <atomic>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace inlay {

namespace {

#if defined(__x86_64__)
// clang 14 does not know "f16c". The operating system saves its registers wherever it saves AVX2's.
bool machine_has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

// __builtin_cpu_supports also asks whether the operating system saves the wide registers.
bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::scalar: return true;
    case Isa::avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && machine_has_f16c();
    case Isa::avx512:
      return machine_has(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    case Isa::avx512_vnni: return machine_has(Isa::avx512) && __builtin_cpu_supports("avx512vnni");
    case Isa::avx512_bf16: return machine_has(Isa::avx512_vnni) && __builtin_cpu_supports("avx512bf16");
    default: return false;
  }
}
#elif defined(__aarch64__)
// Bits of the kernel's account of the machine (HWCAP_ASIMDDP and HWCAP2_I8MM of its uapi; older headers lack them).
bool machine_has(Isa isa) {
  constexpr unsigned long has_dotprod = 1ul << 20, has_i8mm = 1ul << 13;
  switch (isa) {
    case Isa::scalar:
    case Isa::neon: return true;  // part of Armv8-A as Linux knows it
    case Isa::neon_dotprod: return getauxval(AT_HWCAP) & has_dotprod;
    case Isa::neon_i8mm: return machine_has(Isa::neon_dotprod) && (getauxval(AT_HWCAP2) & has_i8mm);
    default: return false;
  }
}
#else
bool machine_has(Isa isa) { return isa == Isa::scalar; }
#endif

Isa best_up_to(Isa wanted) {
  Isa best = all_isas[0];
  for (Isa isa : available_isas())
    if (isa <= wanted) best = isa;
  return best;
}

Isa preferred() {
  const Isa best = best_up_to(all_isas[std::size(all_isas) - 1]);
  const char* forced = std::getenv("INLAY_ISA");
  return forced ? available_isa(forced).value_or(best) : best;
}

}  // namespace

std::span<const Isa> available_isas() {
  struct Levels {
    Isa list[std::size(all_isas)];
    std::size_t count = 0;
    Levels() {
      for (Isa isa : all_isas)
        if (machine_has(isa)) list[count++] = isa;
    }
  };
  static const Levels levels;
  return {levels.list, levels.count};
}

Expected<Isa> available_isa(std::string_view wanted) {
  std::string known;
  for (Isa isa : available_isas()) {
    if (name(isa) == wanted) return isa;
    known += (known.empty() ? "" : " ") + std::string(name(isa));
  }
  return failure(StatusCode::invalid_argument,
                 std::string(wanted) + " is no instruction set of this machine, which has " + known);
}

Cpu::Cpu() : Cpu(preferred(), threads()) {}
Cpu::Cpu(Isa isa) : Cpu(isa, threads()) {}
Cpu::Cpu(Parallel parallel) : Cpu(preferred(), parallel) {}
Cpu::Cpu(Isa isa, Parallel parallel) : isa_(best_up_to(isa)), parallel_(parallel) {
  if (parallel_.width < 1) parallel_.width = 1;  // kernels divide by it
}

namespace {
// Limits are probed at every level.
struct Probe {
  static constexpr Isa dot_levels[] = {Isa::avx512_vnni, Isa::avx512_bf16, Isa::neon_dotprod, Isa::neon_i8mm};
};
}  // namespace

void read_once(const Cpu& cpu, std::span<const std::byte> memory) {
  std::atomic<float> sink{0};
  cpu::dispatch<Probe>(cpu.isa(), [&]<class Level>(Level) {
    cpu.parallel().ranges(static_cast<index>(memory.size()), 4096, [&](index begin, index end) {
      sink.store(cpu::read_range<Level>(memory.data() + begin, memory.data() + end), std::memory_order_relaxed);
    });
  });
}

// probe(Level{}, sink) in every thread: the operations that all have done.
template <class Spin> static double in_every_thread(const Cpu& cpu, Spin&& probe) {
  return cpu::dispatch<Probe>(cpu.isa(), [&](auto level) {
    double operations = 0;
    cpu.parallel()(cpu.parallel().width, [&](index task) {
      float sink = 0.5f;
      const double done = probe(level, &sink);
      if (task == 0) operations = done * cpu.parallel().width + (sink == 12345.0f);
    });
    return operations;
  });
}

double spin_fma(const Cpu& cpu, index rounds) {
  return in_every_thread(cpu, [&]<class Level>(Level, float* sink) { return cpu::fma_rounds<Level>(rounds, sink); });
}

double spin_bf16(const Cpu& cpu, index rounds) {
  return in_every_thread(cpu, [&]<class Level>(Level, float* sink) { return cpu::bf16_rounds<Level>(rounds, sink); });
}

double spin_int8(const Cpu& cpu, index rounds) {
  return in_every_thread(cpu, [&]<class Level>(Level, float* sink) { return cpu::int8_rounds<Level>(rounds, sink); });
}

}  // namespace inlay
