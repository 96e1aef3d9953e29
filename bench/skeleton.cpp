// Write down what the operator moves and computes, and the limit that follows, before optimising.
// Bytes: x is read, y's lines are read and written: 3 transfers of the row. The limit is memory.
#include <inlay/ops/skeleton.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

void skeleton(benchmark::State& state, DType type, index rows, index dim) {
  const Cpu cpu = bench::cpu();
  Operand<2> x(type, {rows, dim}), y(type, {rows, dim});  // rotated through 256 MiB
  const auto op = [&](index i) { return Skeleton<Host>{.x = x.view(i), .y = y.view(i), .slope = 2}; };
  const double bytes = 3.0 * static_cast<double>(byte_size(type, rows * dim));
  const double error = error_against_reference(cpu, op(0), y.view(0), 4);
  measure(state, cpu, {.bytes = bytes, .flops = 2.0 * static_cast<double>(rows * dim)}, error,
          [&](index i) { benchmark::DoNotOptimize(run(cpu, op(i)).ok()); });
}

}  // namespace

void add_all() {
  add("skeleton/f32/512x4096", [](benchmark::State& state) { skeleton(state, DType::f32, 512, 4096); });
}

}  // namespace inlay::bench
