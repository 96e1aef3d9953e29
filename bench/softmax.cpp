// Bytes: x is read, y written (which reads its lines first): 3 transfers. Some 30 flops an element in
// f32. The limit is memory; operands are rotated through 256 MiB. 128256: the logits of Llama-3.
#include <inlay/ops/softmax.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

void softmax(benchmark::State& state, DType type, index rows, index n) {
  const Cpu cpu = bench::cpu();
  Operand<3> x(type, {1, rows, n}), y(type, {1, rows, n});
  const auto op = [&](index i) { return Softmax<Host>{.x = x.view(i), .y = y.view(i)}; };
  BenchWorkspace workspace(workspace_bytes(cpu, op(0)));
  const double error = error_against_reference(cpu, op(0), y.view(0), 64);
  const double bytes = 3.0 * static_cast<double>(byte_size(type, rows * n));
  measure(state, cpu, {.bytes = bytes, .flops = 30.0 * rows * n}, error,
          [&](index i) { benchmark::DoNotOptimize(run(cpu, op(i), workspace).ok()); });
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    add("softmax/" + std::string(name(type)) + "/2048x2048",
        [=](benchmark::State& state) { softmax(state, type, 2048, 2048); });
    add("softmax/" + std::string(name(type)) + "/16x128256",
        [=](benchmark::State& state) { softmax(state, type, 16, 128256); });
  }
}

}  // namespace inlay::bench
