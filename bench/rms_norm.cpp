// Bytes: x is read, y is written (which reads its lines first): 3 transfers of the row. The limit is
// memory; the rows of a prefill chunk of 512 x 4096 are rotated through 256 MiB.
#include <inlay/ops/rms_norm.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

void rms_norm(benchmark::State& state, DType type, index rows, index dim) {
  const Cpu cpu = bench::cpu();
  Operand<2> x(type, {rows, dim}), y(type, {rows, dim});
  Operand<1> weight(DType::f32, {dim});
  const auto op = [&](index i) { return RmsNorm<Host>{.x = x.view(i), .weight = weight.view(0), .y = y.view(i)}; };
  const double bytes = 3.0 * static_cast<double>(byte_size(type, rows * dim));
  const double error = error_against_reference(cpu, op(0), y.view(0), 2 * static_cast<double>(dim));
  measure(state, cpu, {.bytes = bytes, .flops = 4.0 * rows * dim}, error,
          [&](index i) { benchmark::DoNotOptimize(run(cpu, op(i)).ok()); });
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 64, 512})
      add("rms_norm/" + std::string(name(type)) + "/" + std::to_string(rows) + "x4096",
          [=](benchmark::State& state) { rms_norm(state, type, rows, 4096); });
}

}  // namespace inlay::bench
