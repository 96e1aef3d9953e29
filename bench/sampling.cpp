// With top_k memory is the limit; without, exp in double over every token. A row of Llama-3's logits takes 513 KB; rows
// are rotated through 256 MiB.
#include "shapes/sampling.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void sampling(benchmark::State& state, const Sampling<Host>& settings, index rows) {
  const SamplingShape shape{rows, cut(128256, 8192)};
  Operands operands;
  const auto op = [&](index i) {
    const Sampling<Host> at = shape.make(operands.of_call(i));
    Sampling<Host> op = settings;
    op.logits = at.logits;
    op.tokens = at.tokens;
    op.step = i;
    return op;
  };
  // Every backend draws the same token, which depends on the row's number too: all rows are proved at once.
  measure(state, work_at(shape), op, {});
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
