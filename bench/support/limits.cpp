#include <memory>
#include <new>

#include <inlay/cpu_limits.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {

namespace {

// Several times any last-level cache of the machines we run on.
constexpr std::size_t probe_bytes = std::size_t{256} << 20;

std::span<const std::byte> probe_memory() {
  static const std::shared_ptr<exec::Mapping> memory = [] {
    auto bytes = anonymous_memory(probe_bytes);
    for (std::size_t i = 0; i < probe_bytes; i += 4096) bytes->mutable_data()[i] = std::byte{1};
    return bytes;
  }();
  return memory->bytes();
}

double read_seconds(const Cpu& cpu, double bytes) {
  // 64 MiB at a time, moving on, so that no pass finds the last one in the cache.
  static std::size_t at = 0;
  constexpr std::size_t part = std::size_t{64} << 20;
  const auto memory = probe_memory().subspan(at, part);
  at = (at + part) % probe_bytes;
  return seconds([&] { read_once(cpu, memory); }) * bytes / part;
}

// Seconds that `flops` take at the rate of one spin.
template <class Spin> double spin_seconds(double flops, Spin&& spin) {
  double done = 0;
  const double time = seconds([&] { done = spin(index{200000}); });
  return time * flops / done;
}

}  // namespace

std::shared_ptr<exec::Mapping> anonymous_memory(std::size_t bytes) {
  auto memory = exec::Mapping::anonymous(bytes);
  if (!memory) throw std::bad_alloc();
  return *memory;
}

double limit_seconds(const Cpu& cpu, const Work& work) {
  switch (work.limit) {
    case Limit::read: return read_seconds(cpu, work.bytes);
    case Limit::bf16: return spin_seconds(work.flops, [&](index rounds) { return spin_bf16(cpu, rounds); });
    case Limit::int8: return spin_seconds(work.flops, [&](index rounds) { return spin_int8(cpu, rounds); });
    default: return spin_seconds(work.flops, [&](index rounds) { return spin_fma(cpu, rounds); });
  }
}

}  // namespace inlay::bench
