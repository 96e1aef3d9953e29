// One row (decode): bytes = codes + scales + zeros, each read once; the limit is memory, and the
// weights rotate through 256 MiB so that no cache serves them. x and y are below 0.1%.
// Many rows (prefill): 2 * rows * n * k flops; the limit is f32 multiply-add, or int8 dot products
// for int8_activations.
#include <inlay/ops/linear_w4a16.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

enum class Shift { none, zeros, offsets };  // offsets have the type of the scales

struct Form {
  const char* name;
  index group, bits;
  DType scales;
  Shift shift;
};

void linear(benchmark::State& state, const Form& form, W4Compute compute, DType type, index rows, index k, index n) {
  const std::array<index, 3> per_group{w4_panels(n), w4_groups(k, form.group), w4_panel}, nothing{1, 1, 1};
  const bool has_zeros = form.shift == Shift::zeros, has_offsets = form.shift == Shift::offsets;
  Operand<3> codes(DType::u8, {w4_panels(n), w4_steps(k, form.bits), 4 * w4_panel}), scales(form.scales, per_group);
  Operand<3> zeros(DType::u8, has_zeros ? per_group : nothing, has_zeros);
  Operand<3> offsets(form.scales, has_offsets ? per_group : nothing, has_offsets);
  Operand<2> x(type, {rows, k}, false), y(type, {rows, n}, false);
  for (index i = 0; i < zeros.view(0).size(); ++i) zeros.view(0).as<std::uint8_t>()[i] &= 15;
  zeros.spread();
  const auto op = [&](index i) {
    LinearW4a16<Host> op{.x = x.view(0), .codes = codes.view(i), .scales = scales.view(i), .y = y.view(0)};
    if (has_zeros) op.zeros = zeros.view(i);
    if (has_offsets) op.offsets = offsets.view(i);
    op.group = form.group;
    op.bits = form.bits;
    op.compute = compute;
    return op;
  };
  // One panel of one row's outputs: the reference takes seconds for a whole layer.
  const auto row = [=](LinearW4a16<Host> op, index r) {
    const index token = r / w4_panels(n), panel = r % w4_panels(n), first = panel * w4_panel;
    keep_row(token, op.x, op.y);
    keep(1, first, std::min(w4_panel, n - first), op.y);
    keep_row(panel, op.codes, op.scales);
    if (op.zeros.present()) keep_row(panel, op.zeros);
    if (op.offsets.present()) keep_row(panel, op.offsets);
    return op;
  };
  const auto of = [](const Operand<3>& operand) {
    return static_cast<double>(byte_size(operand.view(0).dtype, operand.view(0).size()));
  };
  const double bytes = of(codes) + of(scales) + (has_zeros ? of(zeros) : 0) + (has_offsets ? of(offsets) : 0);
  const bool rounds_x = compute == W4Compute::int8_activations;
  const Limit limit = rows == 1 ? Limit::memory : rounds_x ? Limit::int8 : Limit::fma;
  // The error of rounding x to 8 bits is bounded in the test; 1/127 of the largest |y| is of that size.
  measure(state, {.bytes = bytes, .flops = 2.0 * static_cast<double>(rows * n * k), .limit = limit}, op,
          {.rows = rows * w4_panels(n), .row = row, .ulps = rounds_x ? 0x1p24 / 127 : 300});
}

}  // namespace

void add_all() {
  // GGUF's as import_gguf makes them where nothing else is asked for.
  const Form forms[] = {
      {"gptq_g128", 128, 4, DType::f16, Shift::zeros}, {"q4_0", 32, 4, DType::f16, Shift::none},
      {"q4_1", 32, 4, DType::f16, Shift::offsets},     {"q4_k", 32, 4, DType::f32, Shift::offsets},
      {"q6_k", 16, 8, DType::f32, Shift::none},        {"q8_0", 32, 8, DType::f16, Shift::none},
  };
  struct Layer {
    const char* name;
    index k, n;
  };
  // Llama-3-8B: up, down, o. Qwen2.5-0.5B: up.
  for (const Layer layer : {Layer{"4096x14336", 4096, 14336}, Layer{"14336x4096", 14336, 4096},
                            Layer{"4096x4096", 4096, 4096}, Layer{"896x4864", 896, 4864}})
    for (index rows : {1, 4, 8, 16, 64, 512})
      for (const auto compute : {W4Compute::exact_float, W4Compute::int8_activations})
        for (const Form& form : forms)
          add("linear_w4a16/" + std::string(form.name) + (compute == W4Compute::exact_float ? "/" : "_int8/") +
                  std::to_string(rows) + "x" + layer.name,
              [=](benchmark::State& state) {
                linear(state, form, compute, DType::f32, cut(rows, 64), cut(layer.k), cut(layer.n));
              });
}

}  // namespace inlay::bench
