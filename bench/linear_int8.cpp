// Few tokens: the limit is memory. Many: the level's exact int8 dot product. Activations come in f32 and are quantized
// inside.
#include "shapes/linear_int8.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

struct Layer {
  const char* model;
  index n, k;
};

constexpr Layer layers[] = {{"llama-8b/qo", 4096, 4096},
                            {"llama-8b/up", 14336, 4096},
                            {"llama-8b/down", 4096, 14336},
                            {"llama-1b/up", 8192, 2048},
                            {"qwen-0.5b/up", 4864, 896}};

void linear_int8(benchmark::State& state, const LinearInt8Shape& shape, index outliers) {
  constexpr index few = 32;  // tokens that take longer to compute than the weights to arrive
  const index panels = shape.n / linear_int8::panel;
  Operands operands(shape.m < few);
  const View<2> x = over(shape.make(operands.of_call(0)).x);
  const float step = 1.0f / 127;
  for (index t = 0; t < shape.m; ++t)
    for (index i = 0; i < outliers; ++i) put(x, t, (i * shape.k / outliers + t) % shape.k, 20);
  const auto op = [&](index i) {
    LinearInt8<Host> op = shape.make(operands.of_call(i));
    op.shadow_outliers = outliers > 0;
    if (outliers > 0) op.x_scale = {&step, {1}};
    return op;
  };
  // One panel of one token's outputs: the reference is slow.
  const auto row = [=](LinearInt8<Host> op, index r) {
    constexpr index channels = linear_int8::panel;
    const index token = r / panels, panel = r % panels;
    keep_row(token, op.x, op.y);
    keep(1, panel * channels, channels, op.y);
    keep_row(panel, op.weight);
    keep(0, panel * channels, channels, op.weight_sum, op.weight_scale);
    return op;
  };
  Work work = work_at(shape);
  work.limit = shape.m < few ? Limit::memory : Limit::int8;
  measure(state, work, op, {.rows = shape.m * panels, .row = row, .ulps = 8});
}

}  // namespace

void add_all() {
  const auto figure = [](index tokens, const Layer& layer, index outliers, const std::string& more = "") {
    add("linear_int8/f32/" + std::string(layer.model) + "/" + std::to_string(tokens) + "x" + std::to_string(layer.n) +
            "x" + std::to_string(layer.k) + more,
        [=](benchmark::State& state) {
          linear_int8(state, {cut(tokens, 64), cut(layer.n), cut(layer.k), DType::f32, DType::f32}, outliers);
        });
  };
  for (const Layer& layer : layers)
    for (index tokens : {1, 4, 8, 64, 512}) figure(tokens, layer, 0);
  for (index tokens : {1, 512})
    for (index outliers : {1, 8}) figure(tokens, layers[0], outliers, "/outliers:" + std::to_string(outliers));
}

}  // namespace inlay::bench
