// The limit is memory: the rows of a prefill chunk of 512 x 4096 are rotated through 256 MiB.
#include "shapes/layer_norm.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void layer_norm(benchmark::State& state, const LayerNormShape& shape) {
  const auto row = [](LayerNorm<Host> op, index r) {
    keep_row(r, op.x, op.y);
    return op;
  };
  measure(state, shape, {.rows = shape.rows, .row = row, .ulps = 2 * static_cast<double>(shape.dim)});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 64, 512})
      add("layer_norm/" + std::string(name(type)) + "/" + std::to_string(rows) + "x4096", [=](benchmark::State& state) {
        layer_norm(state, {rows, 4096, type});
      });
}

}  // namespace inlay::bench
