// Bytes: x is read and written in place (2 transfers), the table of a token once for all heads. The
// limit is memory; operands are rotated through 256 MiB. 32 heads of 128: the queries of Llama-3-8B.
// RopeTable computes 64 pairs a token in double: its limit is arithmetic, its figure is a time.
#include <inlay/ops/rope.hpp>
#include <inlay/weights/rope_frequencies.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void rope(benchmark::State& state, DType type, bool interleaved, index tokens) {
  const index heads = 32, dim = 128;
  Operand<3> x(type, {tokens, heads, dim});
  Operand<2> cos(DType::f32, {tokens, dim / 2}, false), sin(DType::f32, {tokens, dim / 2}, false);
  const auto op = [&](index i) {
    return Rope<Host>{
        .x = x.view(i), .cos = cos.view(0), .sin = sin.view(0), .y = x.view(i), .interleaved = interleaved};
  };
  const auto row = [](Rope<Host> op, index r) {
    keep_row(r, op.x, op.cos, op.sin, op.y);
    return op;
  };
  const double written = static_cast<double>(byte_size(type, tokens * heads * dim));
  const double bytes = 2 * written + static_cast<double>(byte_size(DType::f32, tokens * dim));
  measure(state, {.bytes = bytes, .written = written, .flops = 3.0 * tokens * heads * dim}, op,
          {.rows = tokens, .row = row, .ulps = 4, .in_place = true});
}

void rope_table(benchmark::State& state, index tokens) {
  const RopeFrequencies frequencies = *rope_frequencies({.rotary_dim = 128, .theta = 500000});
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  for (index t = 0; t < tokens; ++t) positions[t] = static_cast<std::int32_t>(1000000 + t);
  Operand<2> cos(DType::f32, {tokens, 64}, false), sin(DType::f32, {tokens, 64}, false);
  const auto op = [&](index) {
    return RopeTable<Host>{.positions = ConstView<2>(positions.data(), {1, tokens}),
                           .inv_freq = frequencies.view(),
                           .cos = cos.view(0),
                           .sin = sin.view(0)};
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
            [=](benchmark::State& state) { rope(state, type, interleaved, tokens); });
  for (index tokens : {1, 512})
    add("rope_table/" + std::to_string(tokens) + "x64", [=](benchmark::State& state) { rope_table(state, tokens); });
}

}  // namespace inlay::bench
