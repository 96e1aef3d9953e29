// Bytes: gate and up are read, y is written in place over gate: 3 transfers. The limit is memory;
// operands are rotated through 256 MiB. 14336 and 4864: the feed-forward of Llama-3-8B and Qwen2.5-0.5B.
#include <inlay/ops/swiglu.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

void swiglu(benchmark::State& state, DType type, index rows, index dim) {
  const Cpu cpu = bench::cpu();
  Operand<2> gate(type, {rows, dim}), up(type, {rows, dim});
  Operand<2> y(type, {rows, dim}, false);
  const double error =
      error_against_reference(cpu, Swiglu<Host>{.gate = gate.view(0), .up = up.view(0), .y = y.view(0)}, y.view(0), 14);
  const double bytes = 3.0 * static_cast<double>(byte_size(type, rows * dim));
  measure(state, cpu, {.bytes = bytes, .flops = 25.0 * rows * dim}, error, [&](index i) {
    benchmark::DoNotOptimize(run(cpu, Swiglu<Host>{.gate = gate.view(i), .up = up.view(i), .y = gate.view(i)}).ok());
  });
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 512})
      for (index dim : {4864, 14336})
        add("swiglu/" + std::string(name(type)) + "/" + std::to_string(rows) + "x" + std::to_string(dim),
            [=](benchmark::State& state) { swiglu(state, type, rows, dim); });
}

}  // namespace inlay::bench
