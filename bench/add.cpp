// Bytes: a and b are read, y (a itself, as residual streams are) is written in place: 3 transfers. The
// limit is memory; operands are rotated through 256 MiB.
#include <inlay/ops/add.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

void add(benchmark::State& state, DType type, DType branch, index rows, index dim) {
  const Cpu cpu = bench::cpu();
  Operand<2> a(type, {rows, dim}), b(branch, {rows, dim});
  Operand<2> y(type, {rows, dim}, false);
  const double error =
      error_against_reference(cpu, Add<Host>{.a = a.view(0), .b = b.view(0), .y = y.view(0)}, y.view(0), 1);
  const double bytes = static_cast<double>(2 * byte_size(type, rows * dim) + byte_size(branch, rows * dim));
  measure(state, cpu, {.bytes = bytes, .flops = 1.0 * rows * dim}, error, [&](index i) {
    benchmark::DoNotOptimize(run(cpu, Add<Host>{.a = a.view(i), .b = b.view(i), .y = a.view(i)}).ok());
  });
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (index rows : {1, 512})
      add("add/" + std::string(name(type)) + "/" + std::to_string(rows) + "x4096",
          [=](benchmark::State& state) { add(state, type, type, rows, 4096); });
  add("add/f32+bf16/512x4096", [](benchmark::State& state) { add(state, DType::f32, DType::bf16, 512, 4096); });
}

}  // namespace inlay::bench
