// The limit is the arithmetic of the scores: 24 operations an expert, by fma's limit. What is left is the choice
// itself.
#include "shapes/moe_routing.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void moe_routing(benchmark::State& state, const MoeRoutingShape& shape) {
  Operands operands;
  const auto op = [&](index i) { return shape.make(operands.of_call(i)); };
  Work work = work_at(shape);
  work.limit = Limit::fma;
  // A token's rows depend on all tokens: all are proved at once.
  measure(state, work, op, {.ulps = 64});
}

}  // namespace

void add_all() {
  for (index tokens : {1, 64, 1024}) {
    const auto figure = [&](const std::string& model, const MoeRoutingShape& shape) {
      add("moe_routing/" + model + "/" + std::to_string(tokens) + "x" + std::to_string(shape.experts),
          [=](benchmark::State& state) { moe_routing(state, shape); });
    };
    figure("deepseek_v3", {.tokens = tokens});
    figure("qwen3", MoeRoutingShape::qwen3(tokens));
    figure("gpt_oss", MoeRoutingShape::gpt_oss(tokens));
    figure("phi_moe", MoeRoutingShape::phi_moe(tokens));
  }
}

}  // namespace inlay::bench
