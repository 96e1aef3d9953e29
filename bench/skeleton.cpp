// Write down what the operator moves and computes (shapes/skeleton.hpp), and the limit that follows, before optimising.
// Here it is memory; operands are rotated through 256 MiB.
#include "shapes/skeleton.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void skeleton(benchmark::State& state, const SkeletonShape& shape) {
  const auto row = [](Skeleton<Host> op, index r) {
    keep_row(r, op.x, op.y);
    return op;
  };
  measure(state, shape, {.rows = shape.rows, .row = row, .ulps = 4});
}

}  // namespace

void add_all() {
  add("skeleton/f32/512x4096", [](benchmark::State& state) { skeleton(state, {512, 4096, DType::f32}); });
}

}  // namespace inlay::bench
