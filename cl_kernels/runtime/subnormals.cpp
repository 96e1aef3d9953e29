#include "cl_kernels/runtime/subnormals.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

namespace {

constexpr float products = 8 * 32768;  // in a sum: probe_subnormals.cl

// Seconds that the probe takes with factors 0 .. 15 times the least one, and infinity where a sum is wrong.
double seconds_of(Runtime& runtime, Kernel& kernel, float least, float x) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  std::array<float, 48> data{};
  for (int i = 0; i < 16; ++i) {
    data[i] = static_cast<float>(i) * least;
    data[16 + i] = x;
  }
  const auto begin = std::chrono::steady_clock::now();
  if (!run_probe(runtime.context(), runtime.queue(), kernel, 1, data.data(), sizeof data)) return wrong;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  for (int i = 0; i < 16; ++i)
    if (data[32 + i] != static_cast<float>(i) * (least * x) * products) return wrong;
  return taken.count();
}

}  // namespace

bool has_fast_subnormals(Runtime& runtime) {
  if (runtime.options().only_fallbacks || !runtime.on_this_processor()) return false;
  const auto kernel = runtime.programs().kernel(ProgramKey("runtime/probe_subnormals"), "probe");
  if (!kernel) return false;
  // The least of a few: what interrupts one, or wakes late, makes it longer.
  constexpr int trials = 8;
  double subnormal = std::numeric_limits<double>::infinity(), normal = subnormal;
  for (int trial = 0; trial < trials; ++trial) {
    subnormal = std::min(subnormal, seconds_of(runtime, **kernel, 0x1p-149f, 0x1p100f));
    normal = std::min(normal, seconds_of(runtime, **kernel, 0x1p-49f, 1));
  }
  return subnormal < 4 * normal;
}

}  // namespace inlay::cl
