// Write down what the operator moves and computes, and the limit that follows, before optimising.
// Bytes: x is read, y's lines are read and written: 3 transfers of the row. The limit is memory.
#include <inlay/ops/skeleton.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void skeleton(benchmark::State& state, DType type, index rows, index dim) {
  Operand<2> x(type, {rows, dim}), y(type, {rows, dim});  // rotated through 256 MiB
  const auto op = [&](index i) { return Skeleton<Host>{.x = x.view(i), .y = y.view(i), .slope = 2}; };
  const double written = static_cast<double>(byte_size(type, rows * dim));
  const auto row = [](Skeleton<Host> op, index r) {
    keep_row(r, op.x, op.y);
    return op;
  };
  measure(state, {.bytes = 3 * written, .written = written, .flops = 2.0 * static_cast<double>(rows * dim)}, op,
          {.rows = rows, .row = row, .ulps = 4});
}

}  // namespace

void add_all() {
  add("skeleton/f32/512x4096", [](benchmark::State& state) { skeleton(state, DType::f32, 512, 4096); });
}

}  // namespace inlay::bench
