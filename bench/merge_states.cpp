// The limit is memory: operands are rotated through 256 MiB. 32 heads of 128: Llama-3.
#include "shapes/merge_states.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void merge_states(benchmark::State& state, const MergeStatesShape& shape) {
  const auto row = [](MergeStates<Host> op, index r) {
    keep(1, r, 1, op.partial_out, op.partial_lse);
    keep_row(r, op.out);
    return op;
  };
  measure(state, shape, {.rows = shape.tokens, .row = row, .ulps = 5.0 * static_cast<double>(shape.states) + 4});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index states : {2, 16})
      add("merge_states/" + std::string(name(type)) + "/" + std::to_string(states) + "x128x32x128",
          [=](benchmark::State& state) {
            merge_states(state, {states, 128, 32, 128, type});
          });
}

}  // namespace inlay::bench
