// Bytes: x is read, y is written (which reads its lines first): 3 transfers of the row. The limit is
// memory; the rows of a prefill chunk of 512 x 4096 are rotated through 256 MiB.
#include <inlay/ops/rms_norm.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void rms_norm(benchmark::State& state, DType type, index rows, index dim) {
  Operand<2> x(type, {rows, dim}), y(type, {rows, dim});
  Operand<1> weight(DType::f32, {dim}, false);
  const auto op = [&](index i) { return RmsNorm<Host>{.x = x.view(i), .weight = weight.view(0), .y = y.view(i)}; };
  const double written = static_cast<double>(byte_size(type, rows * dim));
  const auto row = [](RmsNorm<Host> op, index r) {
    keep_row(r, op.x, op.y);
    return op;
  };
  measure(state, {.bytes = 3 * written, .written = written, .flops = 4.0 * rows * dim}, op,
          {.rows = rows, .row = row, .ulps = 2 * static_cast<double>(dim)});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 64, 512})
      add("rms_norm/" + std::string(name(type)) + "/" + std::to_string(rows) + "x4096",
          [=](benchmark::State& state) { rms_norm(state, type, rows, 4096); });
}

}  // namespace inlay::bench
