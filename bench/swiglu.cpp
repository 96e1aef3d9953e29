// The limit is memory: operands are rotated through 256 MiB. 14336 and 4864: the feed-forward of Llama-3-8B and
// Qwen2.5-0.5B.
#include "shapes/swiglu.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void swiglu(benchmark::State& state, const SwigluShape& shape) {
  const auto row = [](Swiglu<Host> op, index r) {
    keep_row(r, op.gate, op.up, op.y);
    return op;
  };
  measure(state, shape, {.rows = shape.rows, .row = row, .ulps = 14, .in_place = true});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 512})
      for (index dim : {4864, 14336})
        add("swiglu/" + std::string(name(type)) + "/" + std::to_string(rows) + "x" + std::to_string(dim),
            [=](benchmark::State& state) {
              swiglu(state, {.rows = rows, .dim = dim, .type = type, .in_place = true});
            });
}

}  // namespace inlay::bench
