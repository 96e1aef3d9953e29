// The limit is memory: top_k rows of x and the shared one are read for each row that is written.
#include "shapes/moe_combine.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void moe_combine(benchmark::State& state, const MoeCombineShape& shape) {
  const auto row = [](MoeCombine<Host> op, index r) {
    keep_row(r, op.rows, op.weights, op.shared, op.y);
    return op;
  };
  measure(state, shape, {.rows = shape.tokens, .row = row, .ulps = 4 * static_cast<double>(shape.top_k)});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::bf16})
    for (index tokens : {1, 64, 512})
      add("moe_combine/" + std::string(name(type)) + "/" + std::to_string(tokens) + "x8x7168",
          [=](benchmark::State& state) { moe_combine(state, {.tokens = tokens, .type = type, .to = type}); });
}

}  // namespace inlay::bench
