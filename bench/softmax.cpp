// The limit is memory: operands are rotated through 256 MiB. 128256: the logits of Llama-3.
#include "shapes/softmax.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void softmax(benchmark::State& state, const SoftmaxShape& shape) {
  const auto row = [](Softmax<Host> op, index r) {
    keep(1, r, 1, op.x, op.y);
    return op;
  };
  measure(state, shape, {.rows = shape.rows, .row = row, .ulps = 64});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    add("softmax/" + std::string(name(type)) + "/2048x2048", [=](benchmark::State& state) {
      softmax(state, {1, 2048, 2048, type});
    });
    add("softmax/" + std::string(name(type)) + "/16x128256", [=](benchmark::State& state) {
      softmax(state, {1, 16, 128256, type});
    });
  }
}

}  // namespace inlay::bench
