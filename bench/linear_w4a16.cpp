// One row (decode): bytes = codes + scales + zeros, each read once; the limit is memory, and the
// weights rotate through 256 MiB so that no cache serves them. x and y are below 0.1%.
// 512 rows (prefill): 2 * rows * n * k flops; the limit is f32 multiply-add, or int8 dot products
// for int8_activations.
#include <inlay/ops/linear_w4a16.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

struct Form {
  const char* name;
  index group, bits;
  DType scales;
  bool zeros;
  W4Compute compute;
};

void linear(benchmark::State& state, const Form& form, DType type, index rows, index k, index n) {
  const Cpu cpu = bench::cpu();
  const std::array<index, 3> per_group{w4_panels(n), w4_groups(k, form.group), w4_panel};
  Operand<3> codes(DType::u8, {w4_panels(n), w4_steps(k, form.bits), 4 * w4_panel}), scales(form.scales, per_group);
  Operand<3> zeros(DType::u8, form.zeros ? per_group : std::array<index, 3>{1, 1, 1});
  Operand<2> x(type, {rows, k}, false), y(type, {rows, n}, false);
  std::mt19937 rng(2);
  index copy = 0;
  do {  // every copy of the codes
    auto* bytes = codes.view(copy).as<std::uint32_t>();
    for (index i = 0; i < codes.view(copy).size() / 4; ++i) bytes[i] = static_cast<std::uint32_t>(rng());
  } while (codes.view(++copy).data != codes.view(0).data);
  // The first `few` panels and rows; all of them by default.
  const auto op = [&](index i, index few_rows, index few) {
    LinearW4a16<Host> op{.x = x.view(0).slice(0, 0, few_rows),
                         .codes = codes.view(i).slice(0, 0, few),
                         .scales = scales.view(i).slice(0, 0, few),
                         .y = y.view(0).slice(0, 0, few_rows).slice(1, 0, std::min(n, few * w4_panel))};
    if (form.zeros) op.zeros = zeros.view(i).slice(0, 0, few);
    op.group = form.group;
    op.bits = form.bits;
    op.compute = form.compute;
    return op;
  };
  // The reference takes seconds for a whole layer: four panels and up to 13 rows of it. Its error of
  // rounding x to 8 bits is bounded in the test; 1/127 of the largest |y| is of that size.
  Operand<2> few_y(type, {std::min<index>(rows, 13), 64}, false);
  LinearW4a16<Host> few = op(0, std::min<index>(rows, 13), 4);
  few.y = few_y.view(0);
  const bool rounds_x = form.compute == W4Compute::int8_activations;
  const double error = error_against_reference(cpu, few, few_y.view(0), rounds_x ? 0x1p24 / 127 : 300);
  double bytes =
      static_cast<double>(byte_size(DType::u8, codes.view(0).size()) + byte_size(form.scales, scales.view(0).size()));
  if (form.zeros) bytes += static_cast<double>(zeros.view(0).size());
  const Limit limit = rows == 1 ? Limit::read : rounds_x ? Limit::int8 : Limit::fma;
  BenchWorkspace workspace(workspace_bytes(cpu, op(0, rows, w4_panels(n))));
  measure(state, cpu, {.bytes = bytes, .flops = 2.0 * static_cast<double>(rows * n * k), .limit = limit}, error,
          [&](index i) { benchmark::DoNotOptimize(run(cpu, op(i, rows, w4_panels(n)), workspace).ok()); });
}

}  // namespace

void add_all() {
  constexpr auto exact = W4Compute::exact_float, int8 = W4Compute::int8_activations;
  const Form forms[] = {
      {"gptq_g128", 128, 4, DType::f16, true, exact}, {"q4_0", 32, 4, DType::f16, false, exact},
      {"q8_0", 32, 8, DType::f16, false, exact},      {"gptq_g128_int8", 128, 4, DType::f16, true, int8},
      {"q4_0_int8", 32, 4, DType::f16, false, int8},  {"q8_0_int8", 32, 8, DType::f16, false, int8},
  };
  struct Layer {
    const char* name;
    index k, n;
  };
  // Llama-3-8B: up, down, o. Qwen2.5-0.5B: up.
  for (const Layer layer : {Layer{"4096x14336", 4096, 14336}, Layer{"14336x4096", 14336, 4096},
                            Layer{"4096x4096", 4096, 4096}, Layer{"896x4864", 896, 4864}})
    for (index rows : {1, 4, 512})
      for (const Form& form : forms)
        add("linear_w4a16/" + std::string(form.name) + "/" + std::to_string(rows) + "x" + layer.name,
            [=](benchmark::State& state) { linear(state, form, DType::f32, rows, layer.k, layer.n); });
}

}  // namespace inlay::bench
