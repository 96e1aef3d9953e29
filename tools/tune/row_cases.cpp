// Operators that go through rows.
#include "shapes/add.hpp"
#include "shapes/dequantize.hpp"
#include "shapes/embedding.hpp"
#include "shapes/gelu.hpp"
#include "shapes/layer_norm.hpp"
#include "shapes/merge_states.hpp"
#include "shapes/moe_combine.hpp"
#include "shapes/moe_routing.hpp"
#include "shapes/quantize.hpp"
#include "shapes/rms_norm.hpp"
#include "shapes/rope.hpp"
#include "shapes/softmax.hpp"
#include "shapes/swiglu.hpp"
#include "tools/tune/cases.hpp"

namespace inlay::tools {

namespace {

// Errors in ulps of f32 of the largest element: one function of an element, or a sum of a row.
constexpr double of_element = 8, of_sum = 32;

void rms_norm_cases(CaseMaker& make, index rows, index dim) {
  make.add("rms_norm " + shape_text(DType::f32, rows, dim), of_sum, RmsNormShape{rows, dim, DType::f32});
  if (make.is_small()) return;
  // Without an offset f16 would be rounded twice, as the contract says.
  make.add("rms_norm " + shape_text(DType::f16, rows, dim), of_sum,
           RmsNormShape{.rows = rows, .dim = dim, .weight = DType::f16, .weight_offset = 1});
}
void softmax_cases(CaseMaker& make, index heads, index rows, index n) {
  make.add("softmax " + shape_text(DType::f32, heads, rows, n), of_sum, SoftmaxShape{heads, rows, n, DType::f32});
}

}  // namespace

void add_row_cases(CaseMaker& make, const ClParameter& parameter) {
  // Small: several rows and pieces of a row, and a rest that is no whole vector.
  const index rows = make.pick(64, 3), dim = make.pick(4096, 333);
  const index hidden = make.pick(14336, parameter.name == "piece" ? 8229 : 333);
  const std::string_view op = parameter.op;
  const auto add = [&](double ulps, const auto& shape, DType type, auto... extents) {
    make.add(std::string(op) + " " + shape_text(type, extents...), ulps, shape);
  };
  if (op == "add") add(of_element, AddShape{rows, dim}, DType::f16, rows, dim);
  if (op == "dequantize") add(of_element, DequantizeShape{rows, dim}, DType::i8, rows, dim);
  if (op == "embedding")
    add(of_element, EmbeddingShape{.tokens = rows, .vocab = 512, .dim = dim, .type = DType::f16}, DType::f16, rows,
        dim);
  for (index tokens : {rows, index{1}}) {
    if (op == "gelu")
      add(of_element, GeluShape{.rows = tokens, .dim = hidden, .has_up = true}, DType::f16, tokens, hidden);
    if (op == "swiglu") add(of_element, SwigluShape{tokens, hidden}, DType::f16, tokens, hidden);
    if (op == "layer_norm")
      add(of_sum, LayerNormShape{.rows = tokens, .dim = dim, .weight = DType::f16}, DType::f16, tokens, dim);
    if (op == "rms_norm") rms_norm_cases(make, tokens, dim);
  }
  if (op == "quantize") add(of_element, QuantizeShape{rows, dim}, DType::f16, rows, dim);
  if (op == "rope") {
    const RopeShape shape{rows, make.pick(32, 3), make.pick(128, 58)};
    add(of_element, shape, DType::f16, shape.tokens, shape.heads, shape.dim);
  }
  if (op == "merge_states") {
    const MergeStatesShape shape{.states = make.pick(8, 3),
                                 .tokens = make.pick(8, 3),
                                 .heads = make.pick(32, 3),
                                 .dim = make.pick(128, 59),
                                 .to = DType::f16,
                                 .has_lse = true};
    add(of_sum, shape, DType::f32, shape.states, shape.tokens, shape.heads, shape.dim);
  }
  if (op == "moe_combine") {
    const MoeCombineShape shape{
        .tokens = make.pick(16, 3), .dim = make.pick(7168, 1029), .type = DType::f16, .to = DType::f16};
    add(of_sum, shape, DType::f16, shape.tokens, shape.dim);
  }
  if (op == "moe_routing") {
    const MoeRoutingShape shape = MoeRoutingShape::qwen3(make.pick(64, 3), DType::f16);
    add(of_sum, shape, DType::f16, shape.tokens, shape.experts);
  }
  if (op == "softmax") {
    const bool is_short = parameter.name == "short_lanes";
    if (is_short || parameter.name == "width")
      softmax_cases(make, make.pick(32, 2), make.pick(64, 3), make.pick(512, 111));
    if (!is_short) softmax_cases(make, make.pick(32, 2), make.pick(16, 2), make.pick(4096, 613));
    if (parameter.name == "piece") softmax_cases(make, 1, make.pick(8, 2), make.pick(131072, 8229));
  }
}

}  // namespace inlay::tools
