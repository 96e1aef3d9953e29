// Bytes: x and up are read, y is written in place over x: 3 transfers. The limit is memory; operands
// are rotated through 256 MiB. 9216: the feed-forward of Gemma-2-2B.
#include <inlay/ops/gelu.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

void gelu(benchmark::State& state, GeluForm form, DType type, index rows, index dim) {
  const Cpu cpu = bench::cpu();
  Operand<2> x(type, {rows, dim}), up(type, {rows, dim});
  Operand<2> y(type, {rows, dim}, false);
  const double error = error_against_reference(
      cpu, Gelu<Host>{.x = x.view(0), .up = up.view(0), .y = y.view(0), .form = form}, y.view(0), 20);
  const double bytes = 3.0 * static_cast<double>(byte_size(type, rows * dim));
  measure(state, cpu, {.bytes = bytes, .flops = 30.0 * rows * dim}, error, [&](index i) {
    benchmark::DoNotOptimize(run(cpu, Gelu<Host>{.x = x.view(i), .up = up.view(i), .y = x.view(i), .form = form}).ok());
  });
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
