// The limit is memory: operands are rotated through 256 MiB. y is written over a, as residual streams are.
#include "shapes/add.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void add(benchmark::State& state, const AddShape& shape) {
  const auto row = [](Add<Host> op, index r) {
    keep_row(r, op.a, op.b, op.y);
    return op;
  };
  measure(state, shape, {.rows = shape.rows, .row = row, .ulps = 1, .in_place = true});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 512})
      add("add/" + std::string(name(type)) + "/" + std::to_string(rows) + "x4096",
          [=](benchmark::State& state) { add(state, {.rows = rows, .type = type, .in_place = true}); });
  add("add/f32+bf16/512x4096", [](benchmark::State& state) {
    add(state, {.rows = 512, .type = DType::f32, .branch = DType::bf16, .in_place = true});
  });
}

}  // namespace inlay::bench
