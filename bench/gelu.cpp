// Bytes: x and up are read, y is written in place over x: 3 transfers. The limit is memory; operands
// are rotated through 256 MiB. 9216: the feed-forward of Gemma-2-2B.
#include <inlay/ops/gelu.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void gelu(benchmark::State& state, GeluForm form, DType type, index rows, index dim) {
  Operand<2> x(type, {rows, dim}), up(type, {rows, dim});
  const auto op = [&](index i) { return Gelu<Host>{.x = x.view(i), .up = up.view(i), .y = x.view(i), .form = form}; };
  const auto row = [](Gelu<Host> op, index r) {
    keep_row(r, op.x, op.up, op.y);
    return op;
  };
  const double written = static_cast<double>(byte_size(type, rows * dim));
  measure(state, {.bytes = 3 * written, .written = written, .flops = 30.0 * rows * dim}, op,
          {.rows = rows, .row = row, .ulps = 20, .in_place = true});
}

}  // namespace

void add_all() {
  constexpr std::string_view forms[] = {"erf", "tanh", "quick"};
  for (GeluForm form : {GeluForm::erf, GeluForm::tanh, GeluForm::quick})
    for (DType type : {DType::f32, DType::bf16})
      add("gelu/" + std::string(forms[static_cast<int>(form)]) + "/" + std::string(name(type)) + "/512x9216",
          [=](benchmark::State& state) { gelu(state, form, type, 512, 9216); });
}

}  // namespace inlay::bench
