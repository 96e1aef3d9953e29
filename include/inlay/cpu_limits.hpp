// What this machine can do at best, measured now. A shared machine's memory changes speed within
// seconds, so benchmarks measure a limit beside each figure instead of once.
#pragma once

#include <cstddef>
#include <span>

#include <inlay/cpu.hpp>

namespace inlay {

// One pass of all threads over `memory`, which should be several times the last cache. The caller
// divides the bytes by the time.
void read_once(const Cpu& cpu, std::span<const std::byte> memory);

// Runs `rounds` of independent register-to-register operations in every thread and returns the
// operations done: multiply and add count as two.
double spin_fma(const Cpu& cpu, index rounds);

// The same with the bf16 dot product; levels without one run fma.
double spin_bf16(const Cpu& cpu, index rounds);

// The same with the exact int8 dot product.
double spin_int8(const Cpu& cpu, index rounds);

namespace cpu {
// One specialisation per level, in cpu_kernels/support/limits.cpp.
template <class Level> float read_range(const std::byte* begin, const std::byte* end);
template <class Level> double fma_rounds(index rounds, float* sink);
template <class Level> double bf16_rounds(index rounds, float* sink);
template <class Level> double int8_rounds(index rounds, float* sink);
}  // namespace cpu

}  // namespace inlay
