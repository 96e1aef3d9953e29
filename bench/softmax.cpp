// Bytes: x is read, y written (which reads its lines first): 3 transfers. Some 30 flops an element in
// f32. The limit is memory; operands are rotated through 256 MiB. 128256: the logits of Llama-3.
#include <inlay/ops/softmax.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void softmax(benchmark::State& state, DType type, index rows, index n) {
  Operand<3> x(type, {1, rows, n}), y(type, {1, rows, n});
  const auto op = [&](index i) { return Softmax<Host>{.x = x.view(i), .y = y.view(i)}; };
  const auto row = [](Softmax<Host> op, index r) {
    keep(1, r, 1, op.x, op.y);
    return op;
  };
  const double written = static_cast<double>(byte_size(type, rows * n));
  measure(state, {.bytes = 3 * written, .written = written, .flops = 30.0 * rows * n}, op,
          {.rows = rows, .row = row, .ulps = 64});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    add("softmax/" + std::string(name(type)) + "/2048x2048",
        [=](benchmark::State& state) { softmax(state, type, 2048, 2048); });
    add("softmax/" + std::string(name(type)) + "/16x128256",
        [=](benchmark::State& state) { softmax(state, type, 16, 128256); });
  }
}

}  // namespace inlay::bench
