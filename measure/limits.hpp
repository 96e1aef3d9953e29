// What this machine can do at best, in a second and measured now (a few milliseconds each): the memory of a
// shared machine changes speed within seconds, so a limit is taken beside every figure.
#pragma once

#include <inlay/cpu.hpp>

namespace inlay::measure {

// Bytes that all threads of `cpu` read together, none of them in a cache.
double read_rate(const Cpu& cpu);

// Bytes that memory moves where the share `written` of the lines that are read is written back: it takes a part of
// them on its way while others come (read 51 GB/s, half of it written back 66, four fifths 73).
double transfer_rate(const Cpu& cpu, double written);

// Operations of all threads in registers; a multiply-add counts two. A level without the dot product does it
// with what it has (inlay/cpu_limits.hpp).
double fma_rate(const Cpu& cpu);
double bf16_rate(const Cpu& cpu);
double int8_rate(const Cpu& cpu);

}  // namespace inlay::measure
