// The limit is memory: operands are rotated through 256 MiB. 32 heads of 128: the queries of Llama-3-8B. RopeTable
// computes 64 pairs a token in double: its limit is arithmetic, its figure is a time.
#include <inlay/weights/rope_frequencies.hpp>

#include "bench/support/measure.hpp"
#include "shapes/rope.hpp"

namespace inlay::bench {
namespace {

void rope(benchmark::State& state, const RopeShape& shape) {
  const auto row = [](Rope<Host> op, index r) {
    keep_row(r, op.x, op.cos, op.sin, op.y);
    return op;
  };
  measure(state, shape, {.rows = shape.tokens, .row = row, .ulps = 4, .in_place = true});
}

void rope_table(benchmark::State& state, index tokens) {
  const RopeFrequencies frequencies = *rope_frequencies({.rotary_dim = 128, .theta = 500000});
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  for (index t = 0; t < tokens; ++t) positions[t] = static_cast<std::int32_t>(1000000 + t);
  Operands operands;
  const auto op = [&](index i) {
    operands.of_call(i);
    return RopeTable<Host>{.positions = ConstView<2>(positions.data(), {1, tokens}),
                           .inv_freq = frequencies.view(),
                           .cos = operands.kept_out(DType::f32, {tokens, 64}),
                           .sin = operands.kept_out(DType::f32, {tokens, 64})};
  };
  measure(state, {.flops = 2 * 40.0 * tokens * 64, .limit = Limit::fma}, op, {.ulps = 1});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (bool interleaved : {false, true})
      for (index tokens : {1, 512, 4096})
        add(std::string("rope/") + (interleaved ? "interleaved/" : "half/") + std::string(name(type)) + "/" +
                std::to_string(tokens) + "x32x128",
            [=](benchmark::State& state) {
              rope(state, {.tokens = tokens, .type = type, .interleaved = interleaved, .in_place = true});
            });
  for (index tokens : {1, 512})
    add("rope_table/" + std::to_string(tokens) + "x64", [=](benchmark::State& state) { rope_table(state, tokens); });
}

}  // namespace inlay::bench
