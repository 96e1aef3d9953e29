// The same kernels once more, built for another instruction set.
#include <cmath>
#include <vector>

#include <inlay/cpu_inline.hpp>

bool other_unit_agrees(const inlay::RmsNorm<inlay::Host>& op, std::vector<float>& y) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return true;
#endif
  const std::vector<float> before = y;
  if (!inlay::run(inlay::CpuInline(), op).ok()) return false;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (std::abs(y[i] - before[i]) > 1e-5f) return false;
  return true;
}
