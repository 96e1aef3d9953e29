// Bytes: the row of logits is read once, 513 KB of f32 for Llama-3's 128256 tokens. With top_k memory
// is the limit; without, exp in double over every token. Logits are drawn from a normal distribution
// of deviation 3, rows rotated through 256 MiB.
#include <inlay/ops/sampling.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

const index vocab = cut(128256, 8192);

void sampling(benchmark::State& state, const Sampling<Host>& settings, index rows) {
  Operand<2> logits(DType::f32, {rows, vocab});
  std::mt19937 rng(1);
  std::normal_distribution<float> values(0, 3);
  for (index i = 0; i < rows * vocab; ++i) logits.view(0).as<float>()[i] = values(rng);
  logits.spread();
  Operand<1> tokens(DType::i32, {rows}, false);
  const auto op = [&](index i) {
    Sampling<Host> op = settings;
    op.logits = logits.view(i);
    op.tokens = tokens.view(0);
    op.step = i;
    return op;
  };
  // Every backend draws the same token, which depends on the row's number too: all rows are proved at once.
  measure(state, {.bytes = static_cast<double>(byte_size(DType::f32, rows * vocab))}, op, {});
}

}  // namespace

void add_all() {
  for (index rows : {1, 16}) {
    const auto figure = [&](const std::string& what, const Sampling<Host>& settings) {
      add("sampling/" + what + "/" + std::to_string(rows) + "x128256",
          [=](benchmark::State& state) { sampling(state, settings, rows); });
    };
    figure("greedy", {.logits = {}, .tokens = {}, .temperature = 0});
    figure("top_k_40", {.logits = {}, .tokens = {}, .temperature = 0.8f, .top_k = 40});
    figure("top_k_50_top_p_min_p",
           {.logits = {}, .tokens = {}, .temperature = 0.8f, .top_k = 50, .top_p = 0.95f, .min_p = 0.05f});
    figure("top_p", {.logits = {}, .tokens = {}, .temperature = 0.8f, .top_p = 0.95f});
    figure("temperature", {.logits = {}, .tokens = {}, .temperature = 0.8f});
  }
}

}  // namespace inlay::bench
