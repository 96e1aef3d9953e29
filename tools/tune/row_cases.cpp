// Operators that go through rows.
#include <inlay/ops/add.hpp>
#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/merge_states.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/softmax.hpp>
#include <inlay/ops/swiglu.hpp>

#include "tools/tune/cases.hpp"

namespace inlay::tools {

namespace {

// Errors in ulps of f32 of the largest element: one function of an element, or a sum of a row.
constexpr double of_element = 8, of_sum = 32;

void add_cases(CaseMaker& make, index rows, index dim) {
  make.add("add " + shape_text(DType::f16, rows, dim), of_element, [=](Operands& o) {
    return Add<Host>{.a = o.random<2>(DType::f16, {rows, dim}),
                     .b = o.random<2>(DType::f16, {rows, dim}),
                     .y = o.output<2>(DType::f16, {rows, dim})};
  });
}
void gelu_cases(CaseMaker& make, index rows, index dim) {
  make.add("gelu " + shape_text(DType::f16, rows, dim), of_element, [=](Operands& o) {
    return Gelu<Host>{.x = o.random<2>(DType::f16, {rows, dim}, -4, 4),
                      .up = o.random<2>(DType::f16, {rows, dim}),
                      .y = o.output<2>(DType::f16, {rows, dim})};
  });
}
void swiglu_cases(CaseMaker& make, index rows, index dim) {
  make.add("swiglu " + shape_text(DType::f16, rows, dim), of_element, [=](Operands& o) {
    return Swiglu<Host>{.gate = o.random<2>(DType::f16, {rows, dim}, -4, 4),
                        .up = o.random<2>(DType::f16, {rows, dim}),
                        .y = o.output<2>(DType::f16, {rows, dim})};
  });
}
void rms_norm_cases(CaseMaker& make, index rows, index dim) {
  make.add("rms_norm " + shape_text(DType::f32, rows, dim), of_sum, [=](Operands& o) {
    return RmsNorm<Host>{.x = o.random<2>(DType::f32, {rows, dim}),
                         .weight = o.random<1>(DType::f32, {dim}, 0.5, 1.5),
                         .y = o.output<2>(DType::f32, {rows, dim})};
  });
  if (make.is_small()) return;
  // Without an offset f16 would be rounded twice, as the contract says.
  make.add("rms_norm " + shape_text(DType::f16, rows, dim), of_sum, [=](Operands& o) {
    return RmsNorm<Host>{.x = o.random<2>(DType::f16, {rows, dim}),
                         .weight = o.random<1>(DType::f16, {dim}),
                         .y = o.output<2>(DType::f16, {rows, dim}),
                         .weight_offset = 1};
  });
}
void softmax_cases(CaseMaker& make, index heads, index rows, index n) {
  make.add("softmax " + shape_text(DType::f32, heads, rows, n), of_sum, [=](Operands& o) {
    return Softmax<Host>{.x = o.random<3>(DType::f32, {heads, rows, n}, -8, 8),
                         .y = o.output<3>(DType::f32, {heads, rows, n})};
  });
}
void quantize_cases(CaseMaker& make, index rows, index dim) {
  make.add("quantize " + shape_text(DType::f16, rows, dim), of_element, [=](Operands& o) {
    return Quantize<Host>{.x = o.random<2>(DType::f16, {rows, dim}),
                          .y = o.output<2>(DType::i8, {rows, dim}),
                          .row_scale = o.output<1>(DType::f32, {rows})};
  });
}
void dequantize_cases(CaseMaker& make, index rows, index dim) {
  make.add("dequantize " + shape_text(DType::i8, rows, dim), of_element, [=](Operands& o) {
    return Dequantize<Host>{.x = o.integers<2>(DType::i8, {rows, dim}, -128, 127),
                            .scale = o.random<2>(DType::f32, {rows, 1}, 0.01, 0.1),
                            .y = o.output<2>(DType::f16, {rows, dim})};
  });
}
void embedding_cases(CaseMaker& make, index tokens, index dim) {
  constexpr index vocab = 512;
  make.add("embedding " + shape_text(DType::f16, tokens, dim), of_element, [=](Operands& o) {
    return Embedding<Host>{.table = o.random<2>(DType::f16, {vocab, dim}),
                           .ids = o.integers<1>(DType::i32, {tokens}, 0, vocab - 1),
                           .y = o.output<2>(DType::f16, {tokens, dim})};
  });
}
void rope_cases(CaseMaker& make, index tokens, index heads, index dim) {
  make.add("rope " + shape_text(DType::f16, tokens, heads, dim), of_element, [=](Operands& o) {
    return Rope<Host>{.x = o.random<3>(DType::f16, {tokens, heads, dim}),
                      .cos = o.random<2>(DType::f32, {tokens, dim / 2}),
                      .sin = o.random<2>(DType::f32, {tokens, dim / 2}),
                      .y = o.output<3>(DType::f16, {tokens, heads, dim})};
  });
}
void merge_cases(CaseMaker& make, index states, index tokens, index heads, index dim) {
  make.add("merge_states " + shape_text(DType::f32, states, tokens, heads, dim), of_sum, [=](Operands& o) {
    return MergeStates<Host>{.partial_out = o.random<4>(DType::f32, {states, tokens, heads, dim}),
                             .partial_lse = o.random<3>(DType::f32, {states, tokens, heads}, -4, 4),
                             .out = o.output<3>(DType::f16, {tokens, heads, dim}),
                             .lse = o.output<2>(DType::f32, {tokens, heads})};
  });
}

}  // namespace

void add_row_cases(CaseMaker& make, const ClParameter& parameter) {
  // Small: several rows and pieces of a row, and a rest that is no whole vector.
  const index rows = make.pick(64, 3), dim = make.pick(4096, 333);
  const index hidden = make.pick(14336, parameter.name == "piece" ? 8229 : 333);
  const std::string_view op = parameter.op;
  if (op == "add") add_cases(make, rows, dim);
  if (op == "dequantize") dequantize_cases(make, rows, dim);
  if (op == "embedding") embedding_cases(make, rows, dim);
  if (op == "gelu" || op == "swiglu")
    for (index tokens : {rows, index{1}})
      op == "gelu" ? gelu_cases(make, tokens, hidden) : swiglu_cases(make, tokens, hidden);
  if (op == "quantize") quantize_cases(make, rows, dim);
  if (op == "rms_norm")
    for (index tokens : {rows, index{1}}) rms_norm_cases(make, tokens, dim);
  if (op == "rope") rope_cases(make, rows, make.pick(32, 3), make.pick(128, 58));
  if (op == "merge_states") merge_cases(make, make.pick(8, 3), make.pick(8, 3), make.pick(32, 3), make.pick(128, 59));
  if (op == "softmax") {
    const bool is_short = parameter.name == "short_lanes";
    if (is_short || parameter.name == "width")
      softmax_cases(make, make.pick(32, 2), make.pick(64, 3), make.pick(512, 111));
    if (!is_short) softmax_cases(make, make.pick(32, 2), make.pick(16, 2), make.pick(4096, 613));
    if (parameter.name == "piece") softmax_cases(make, 1, make.pick(8, 2), make.pick(131072, 8229));
  }
}

}  // namespace inlay::tools
