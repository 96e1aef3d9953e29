// Few tokens: bytes are the n * k of the weights, the limit is memory. Many: 2 n k operations a token,
// the limit is the level's exact int8 dot product. Activations come in f32 and are quantized inside.
#include <inlay/ops/linear_int8.hpp>

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

void linear_int8(benchmark::State& state, DType type, index tokens, Layer layer, index outliers) {
  const index n = cut(layer.n), k = cut(layer.k), panels = n / linear_int8::panel;
  const std::array<index, 3> packed = linear_int8::packed_extents(n, k);
  constexpr index few = 32;  // tokens that take longer to compute than the weights to arrive
  Operand<2> x(type, {tokens, k}, false), y(DType::f32, {tokens, n}, false);
  Operand<3> weight(DType::i8, packed, tokens < few);
  Operand<1> sums(DType::i32, {n}, false), scale(DType::f32, {n}, false), x_scale(DType::f32, {1}, false);
  for (index o = 0; o < n; ++o) {
    sums.view(0).as<std::int32_t>()[o] = 0;
    for (index i = 0; i < k; ++i)
      sums.view(0).as<std::int32_t>()[o] +=
          weight.view(0).as<std::int8_t>()[(o / 16 * packed[1] + i / 4) * 64 + o % 16 * 4 + i % 4];
  }
  *x_scale.view(0).as<float>() = 1.0f / 127;
  for (index t = 0; t < tokens; ++t)
    for (index i = 0; i < outliers; ++i) put(x.view(0), t, (i * k / outliers + t) % k, 20);
  const auto op = [&](index i) {
    LinearInt8<Host> op{.x = x.view(0),
                        .weight = weight.view(i),
                        .weight_sum = sums.view(0),
                        .weight_scale = scale.view(0),
                        .y = y.view(0)};
    if (outliers) {
      op.x_scale = x_scale.view(0);
      op.shadow_outliers = true;
    }
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
  const double operations = 2.0 * static_cast<double>(tokens * n * k);
  const Work work =
      tokens < few ? Work{.bytes = static_cast<double>(n * k)} : Work{.flops = operations, .limit = Limit::int8};
  measure(state, work, op, {.rows = tokens * panels, .row = row, .ulps = 8});
}

}  // namespace

void add_all() {
  const auto title = [](DType type, index tokens, const Layer& layer) {
    return "linear_int8/" + std::string(name(type)) + "/" + layer.model + "/" + std::to_string(tokens) + "x" +
           std::to_string(layer.n) + "x" + std::to_string(layer.k);
  };
  for (const Layer& layer : layers)
    for (index tokens : {1, 4, 8, 64, 512})
      add(title(DType::f32, tokens, layer),
          [=](benchmark::State& state) { linear_int8(state, DType::f32, cut(tokens, 64), layer, 0); });
  for (index tokens : {1, 512})
    for (index outliers : {1, 8})
      add(title(DType::f32, tokens, layers[0]) + "/outliers:" + std::to_string(outliers),
          [=](benchmark::State& state) { linear_int8(state, DType::f32, cut(tokens, 64), layers[0], outliers); });
}

}  // namespace inlay::bench
