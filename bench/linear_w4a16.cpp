// One row (decode): the limit is memory, and the weights rotate through 256 MiB so that no cache serves them. Many rows
// (prefill): f32 multiply-add, or int8 dot products for int8_activations.
#include "shapes/linear_w4a16.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

enum class Codes { symmetric, zeros, offsets, codebook, fp4 };

struct Form {
  const char* name;
  index group, bits;
  DType scales;  // i8: in units of super-blocks
  Codes codes;
};

void linear(benchmark::State& state, const LinearW4a16Shape& shape) {
  const index panels = w4_panels(shape.n);
  // One panel of one row's outputs: the reference takes seconds for a whole layer.
  const auto row = [=](LinearW4a16<Host> op, index r) {
    const index token = r / panels, panel = r % panels, first = panel * w4_panel;
    keep_row(token, op.x, op.y);
    keep(1, first, std::min(w4_panel, shape.n - first), op.y);
    keep_row(panel, op.codes, op.scales);
    for (ConstView<3>* view : {&op.zeros, &op.offsets, &op.super_scales, &op.super_offsets})
      if (view->present()) keep_row(panel, *view);
    return op;
  };
  const bool rounds_x = shape.compute == W4Compute::int8_activations;
  Work work = work_at(shape);
  work.limit = shape.m == 1 ? Limit::memory : rounds_x ? Limit::int8 : Limit::fma;
  // The error of rounding x to 8 bits is bounded in the test; 1/127 of the largest |y| is of that size.
  measure(state, work, shape, {.rows = shape.m * panels, .row = row, .ulps = rounds_x ? 0x1p24 / 127 : 300});
}

}  // namespace

void add_all() {
  // GGUF's as import_gguf makes them where nothing else is asked for, and the K formats with scales of f16.
  const Form forms[] = {
      {"gptq_g128", 128, 4, DType::f16, Codes::zeros}, {"q4_0", 32, 4, DType::f16, Codes::symmetric},
      {"q4_1", 32, 4, DType::f16, Codes::offsets},     {"q4_k", 32, 4, DType::i8, Codes::offsets},
      {"q6_k", 16, 6, DType::i8, Codes::symmetric},    {"q8_0", 32, 8, DType::f16, Codes::symmetric},
      {"q5_1", 32, 5, DType::f16, Codes::offsets},     {"q5_k", 32, 5, DType::i8, Codes::offsets},
      {"q2_k", 16, 4, DType::i8, Codes::offsets},      {"q3_k", 16, 4, DType::i8, Codes::symmetric},
      {"iq4_nl", 32, 4, DType::f16, Codes::codebook},  {"iq4_xs", 32, 4, DType::i8, Codes::codebook},
      {"mxfp4", 32, 4, DType::bf16, Codes::fp4},       {"q5_0", 32, 5, DType::f16, Codes::symmetric},
      {"q4_k_f16", 32, 4, DType::f16, Codes::offsets}, {"q6_k_f16", 16, 6, DType::f16, Codes::symmetric},
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
                linear(state, {.m = cut(rows, 64),
                               .n = cut(layer.n),
                               .k = cut(layer.k),
                               .group = form.group,
                               .type = DType::f32,
                               .scales = form.scales,
                               .bits = form.bits,
                               .has_zeros = form.codes == Codes::zeros,
                               .has_offsets = form.codes == Codes::offsets,
                               .has_codebook = form.codes == Codes::codebook || form.codes == Codes::fp4,
                               .largest_of_codebook = form.codes == Codes::fp4 ? 12 : 127,
                               .in_units = form.scales == DType::i8,
                               .compute = compute});
              });
}

}  // namespace inlay::bench
