// Bytes: every part is read, out written (which reads its lines first). Two flops an element read. The
// limit is memory; operands are rotated through 256 MiB. 32 heads of 128: Llama-3.
#include <inlay/ops/merge_states.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void merge_states(benchmark::State& state, DType type, index states, index tokens) {
  constexpr index heads = 32, head_dim = 128;
  Operand<4> parts(type, {states, tokens, heads, head_dim});
  Operand<3> lse(DType::f32, {states, tokens, heads}, false), out(type, {tokens, heads, head_dim});
  const auto op = [&](index i) {
    return MergeStates<Host>{.partial_out = parts.view(i), .partial_lse = lse.view(0), .out = out.view(i)};
  };
  const auto row = [](MergeStates<Host> op, index r) {
    keep(1, r, 1, op.partial_out, op.partial_lse);
    keep_row(r, op.out);
    return op;
  };
  const index elements = tokens * heads * head_dim;
  measure(state,
          {.bytes = static_cast<double>(byte_size(type, (states + 2) * elements)),
           .written = static_cast<double>(byte_size(type, elements)),
           .flops = 2.0 * static_cast<double>(states * elements)},
          op, {.rows = tokens, .row = row, .ulps = 5.0 * static_cast<double>(states) + 4});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index states : {2, 16})
      add("merge_states/" + std::string(name(type)) + "/" + std::to_string(states) + "x128x32x128",
          [=](benchmark::State& state) { merge_states(state, type, states, 128); });
}

}  // namespace inlay::bench
