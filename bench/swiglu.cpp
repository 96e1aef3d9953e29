// Bytes: gate and up are read, y is written in place over gate: 3 transfers. The limit is memory;
// operands are rotated through 256 MiB. 14336 and 4864: the feed-forward of Llama-3-8B and Qwen2.5-0.5B.
#include <inlay/ops/swiglu.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void swiglu(benchmark::State& state, DType type, index rows, index dim) {
  Operand<2> gate(type, {rows, dim}), up(type, {rows, dim});
  const auto op = [&](index i) { return Swiglu<Host>{.gate = gate.view(i), .up = up.view(i), .y = gate.view(i)}; };
  const auto row = [](Swiglu<Host> op, index r) {
    keep_row(r, op.gate, op.up, op.y);
    return op;
  };
  const double written = static_cast<double>(byte_size(type, rows * dim));
  measure(state, {.bytes = 3 * written, .written = written, .flops = 25.0 * rows * dim}, op,
          {.rows = rows, .row = row, .ulps = 14, .in_place = true});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 512})
      for (index dim : {4864, 14336})
        add("swiglu/" + std::string(name(type)) + "/" + std::to_string(rows) + "x" + std::to_string(dim),
            [=](benchmark::State& state) { swiglu(state, type, rows, dim); });
}

}  // namespace inlay::bench
