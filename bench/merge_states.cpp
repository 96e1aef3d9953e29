// Bytes: every part is read, out written (which reads its lines first). Two flops an element read. The
// limit is memory; operands are rotated through 256 MiB. 32 heads of 128: Llama-3.
#include <inlay/ops/merge_states.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

void merge_states(benchmark::State& state, DType type, index states, index tokens) {
  constexpr index heads = 32, head_dim = 128;
  const Cpu cpu = bench::cpu();
  Operand<4> parts(type, {states, tokens, heads, head_dim});
  Operand<3> lse(DType::f32, {states, tokens, heads}, false), out(type, {tokens, heads, head_dim});
  const auto op = [&](index i) {
    return MergeStates<Host>{.partial_out = parts.view(i), .partial_lse = lse.view(0), .out = out.view(i)};
  };
  BenchWorkspace workspace(workspace_bytes(cpu, op(0)));
  const double error = error_against_reference(cpu, op(0), out.view(0), 5.0 * static_cast<double>(states) + 4);
  const index elements = tokens * heads * head_dim;
  measure(state, cpu,
          {.bytes = static_cast<double>(byte_size(type, (states + 2) * elements)),
           .flops = 2.0 * static_cast<double>(states * elements)},
          error, [&](index i) { benchmark::DoNotOptimize(run(cpu, op(i), workspace).ok()); });
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index states : {2, 16})
      add("merge_states/" + std::string(name(type)) + "/" + std::to_string(states) + "x128x32x128",
          [=](benchmark::State& state) { merge_states(state, type, states, 128); });
}

}  // namespace inlay::bench
