#include "measure/limits.hpp"

#include <atomic>
#include <cmath>
#include <cstdint>

#include <inlay/cpu_limits.hpp>

#include "measure/memory.hpp"
#include "measure/timing.hpp"

namespace inlay::measure {

namespace {

// Several times any last-level cache of the machines we run on.
constexpr std::size_t probe_bytes = std::size_t{256} << 20;

std::byte* probe_memory() {
  static const Memory memory = [] {
    Memory touched(probe_bytes);
    for (std::size_t i = 0; i < probe_bytes; i += 4096) touched.data()[i] = std::byte{1};
    return touched;
  }();
  return memory.data();
}

// 64 MiB at a time, moving on, so that no pass finds the last one in the cache.
constexpr std::size_t part = std::size_t{64} << 20;
std::byte* next_part() {
  static std::size_t at = 0;
  std::byte* const memory = probe_memory() + at;
  at = (at + part) % probe_bytes;
  return memory;
}

template <class Spin> double spin_rate(Spin&& spin) {
  double done = 0;
  const double time = seconds([&] { done = spin(index{200000}); });
  return done / time;
}

}  // namespace

double read_rate(const Cpu& cpu) {
  const std::span<const std::byte> memory(next_part(), part);
  return part / seconds([&] { read_once(cpu, memory); });
}

double transfer_rate(const Cpu& cpu, double written) {
  // Two streams, of which one is written: for every ten lines so many of each. One word of a line is touched. Written
  // lines among others in one stream, four streams or whole lines gave up to a tenth less.
  constexpr index group = 10, line = 64 / sizeof(std::uint64_t), groups = part / 64 / group;
  const index updated = std::lround(written * group), read = group - updated;
  if (updated == 0) return read_rate(cpu);
  auto* const words = reinterpret_cast<std::uint64_t*>(next_part());
  std::atomic<std::uint64_t> sink = 0;
  const double time = seconds([&] {
    cpu.parallel().ranges(groups, 1, [&](index begin, index end) {
      std::uint64_t *to = words + begin * updated * line, *from = words + (groups * updated + begin * read) * line;
      std::uint64_t sum = 0;
      for (index i = begin; i < end; ++i) {
        for (index k = 0; k < updated; ++k, to += line) ++*to;
        for (index k = 0; k < read; ++k, from += line) sum += *from;
      }
      sink += sum;
    });
  });
  return 64 * static_cast<double>(groups * (group + updated)) / time;
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
