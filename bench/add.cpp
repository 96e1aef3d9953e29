// Bytes: a and b are read, y (a itself, as residual streams are) is written in place: 3 transfers. The
// limit is memory; operands are rotated through 256 MiB.
#include <inlay/ops/add.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void add(benchmark::State& state, DType type, DType branch, index rows, index dim) {
  Operand<2> a(type, {rows, dim}), b(branch, {rows, dim});
  const auto op = [&](index i) { return Add<Host>{.a = a.view(i), .b = b.view(i), .y = a.view(i)}; };
  const auto row = [](Add<Host> op, index r) {
    keep_row(r, op.a, op.b, op.y);
    return op;
  };
  const double written = static_cast<double>(byte_size(type, rows * dim));
  const double bytes = 2 * written + static_cast<double>(byte_size(branch, rows * dim));
  measure(state, {.bytes = bytes, .written = written, .flops = 1.0 * rows * dim}, op,
          {.rows = rows, .row = row, .ulps = 1, .in_place = true});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 512})
      add("add/" + std::string(name(type)) + "/" + std::to_string(rows) + "x4096",
          [=](benchmark::State& state) { add(state, type, type, rows, 4096); });
  add("add/f32+bf16/512x4096", [](benchmark::State& state) { add(state, DType::f32, DType::bf16, 512, 4096); });
}

}  // namespace inlay::bench
