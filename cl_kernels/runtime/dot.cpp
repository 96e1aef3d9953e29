#include "cl_kernels/runtime/dot.hpp"

#include <array>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

namespace {

// What this machine's processor has, and so PoCL's device: an unknown instruction would end the process.
#if defined(__x86_64__)
bool has_vnni_512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni"); }
bool has_vnni_256() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
}
bool has_madd_512() { return __builtin_cpu_supports("avx512bw"); }
bool has_madd_256() { return __builtin_cpu_supports("avx2"); }
#else
bool has_madd_512() { return false; }
bool has_madd_256() { return false; }
bool has_vnni_512() { return false; }
bool has_vnni_256() { return false; }
#endif

std::vector<Dot> candidates(const Runtime& runtime) {
  std::vector<Dot> ways;
  const ClDevice& device = runtime.device();
  if (runtime.options().only_fallbacks) return ways;
  if (runtime.per_item()) {
    if (!runtime.on_this_processor()) return ways;
    if (has_vnni_512()) ways.push_back({"DOT_VNNI", 16, 1});
    if (has_vnni_256()) ways.push_back({"DOT_VNNI", 8, 1, 6, 1});
    if (has_madd_512()) ways.push_back({"DOT_MADD", 16, 2});
    if (has_madd_256()) ways.push_back({"DOT_MADD", 8, 2, 6, 1});
    return ways;
  }
  // By what devices and vendors say; neither has been met yet.
  if (device.vendor.find("NVIDIA") != std::string::npos) ways.push_back({"DOT_PTX", 1});
  if (device.has("cl_khr_integer_dot_product")) ways.push_back({"DOT_KHR", 1});
  return ways;
}

// Sixteen products of four bytes, extreme ones among them, on sums about to wrap around: saturating ones are seen.
bool is_right(Runtime& runtime, const Dot& way) {
  struct Data {
    std::array<unsigned char, 64> u;
    std::array<signed char, 4> x;
    std::array<std::int32_t, 16> y;
  };
  const Data data = [] {
    Data made;
    for (int i = 0; i < 64; ++i) made.u[i] = static_cast<unsigned char>(i % 5 == 0 ? 255 : i % 7 == 0 ? 128 : 37 * i);
    made.x = {-128, -128, 127, 3};
    for (int c = 0; c < 16; ++c) made.y[c] = c % 2 ? 0x7fffffff - 100 * c : c - 0x7fffffff;
    return made;
  }();
  ProgramKey key("runtime/probe_dot");
  const auto kernel = runtime.programs().kernel(way.define(key), "probe");
  if (!kernel) return false;
  Data got = data;
  if (!run_probe(runtime.context(), runtime.queue(), **kernel, 1, &got, sizeof got)) return false;
  for (int c = 0; c < 16; ++c) {
    auto sum = static_cast<std::uint32_t>(data.y[c]);
    for (int j = 0; j < 4; ++j) sum += static_cast<std::uint32_t>(data.u[4 * c + j] * data.x[j]);
    if (static_cast<std::uint32_t>(got.y[c]) != sum) return false;
  }
  return true;
}

}  // namespace

std::vector<Dot> dot_ways(Runtime& runtime) {
  std::vector<Dot> ways;
  for (const Dot& way : candidates(runtime))
    if (is_right(runtime, way)) ways.push_back(way);
  ways.push_back({});
  return ways;
}

Dot best_dot(Runtime& runtime) {
  for (const Dot& way : candidates(runtime))
    if (is_right(runtime, way)) return way;
  return {};
}

}  // namespace inlay::cl
