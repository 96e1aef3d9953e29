#include "measure/limits.hpp"

#include <inlay/cpu_limits.hpp>

#include "measure/memory.hpp"
#include "measure/timing.hpp"

namespace inlay::measure {

namespace {

// Several times any last-level cache of the machines we run on.
constexpr std::size_t probe_bytes = std::size_t{256} << 20;

std::span<const std::byte> probe_memory() {
  static const Memory memory = [] {
    Memory touched(probe_bytes);
    for (std::size_t i = 0; i < probe_bytes; i += 4096) touched.data()[i] = std::byte{1};
    return touched;
  }();
  return memory.bytes();
}

template <class Spin> double spin_rate(Spin&& spin) {
  double done = 0;
  const double time = seconds([&] { done = spin(index{200000}); });
  return done / time;
}

}  // namespace

double read_rate(const Cpu& cpu) {
  // 64 MiB at a time, moving on, so that no pass finds the last one in the cache.
  static std::size_t at = 0;
  constexpr std::size_t part = std::size_t{64} << 20;
  const auto memory = probe_memory().subspan(at, part);
  at = (at + part) % probe_bytes;
  return part / seconds([&] { read_once(cpu, memory); });
}

double fma_rate(const Cpu& cpu) {
  return spin_rate([&](index rounds) { return spin_fma(cpu, rounds); });
}
double bf16_rate(const Cpu& cpu) {
  return spin_rate([&](index rounds) { return spin_bf16(cpu, rounds); });
}
double int8_rate(const Cpu& cpu) {
  return spin_rate([&](index rounds) { return spin_int8(cpu, rounds); });
}

}  // namespace inlay::measure
