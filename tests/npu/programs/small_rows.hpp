// The row-wise operators at sizes that take many tiles of small memories, long rows in pieces among them.
#pragma once

#include "shapes/add.hpp"
#include "shapes/dequantize.hpp"
#include "shapes/embedding.hpp"
#include "shapes/gelu.hpp"
#include "shapes/layer_norm.hpp"
#include "shapes/moe_combine.hpp"
#include "shapes/moe_routing.hpp"
#include "shapes/quantize.hpp"
#include "shapes/rms_norm.hpp"
#include "shapes/rope.hpp"
#include "shapes/softmax.hpp"
#include "shapes/swiglu.hpp"
#include "tests/npu/programs/small_problems.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const Add<Host>&, const Choices&);
Program program(GlobalMemory&, const RmsNorm<Host>&, const Choices&);
Program program(GlobalMemory&, const LayerNorm<Host>&, const Choices&);
Program program(GlobalMemory&, const Swiglu<Host>&, const Choices&);
Program program(GlobalMemory&, const Gelu<Host>&, const Choices&);
Program program(GlobalMemory&, const Softmax<Host>&, const Choices&);
Program program(GlobalMemory&, const Quantize<Host>&, const Choices&);
Program program(GlobalMemory&, const Dequantize<Host>&, const Choices&);
Program program(GlobalMemory&, const Embedding<Host>&, const Choices&);
Program program(GlobalMemory&, const Rope<Host>&, const Choices&);
Program program(GlobalMemory&, const MoeCombine<Host>&, const Choices&);
Program program(GlobalMemory&, const MoeRouting<Host>&, const Choices&);

}  // namespace inlay::npu

namespace inlay::npu::test {

// Either end is the largest of a row, and the span of the second one is beyond f32.
struct LongRowsOfCodes {
  bool has_zeros;

  Quantize<Host> make(Tensors& tensors) const {
    constexpr index columns = 2500;
    const Quantize<Host> op =
        QuantizeShape{.rows = 3, .dim = columns, .type = DType::f32, .has_zeros = has_zeros}.make(tensors);
    float* const x = over(op.x).as<float>();
    x[7] = 2, x[columns + 9] = -3e38f, x[columns + 11] = 2e38f;
    return op;
  }
};

// The squares of a row are beyond f32; with an eps of 0 those of any may be below what it holds.
struct RowsOfAnyRange {
  index rows, dim;
  float eps;

  RmsNorm<Host> make(Tensors& tensors) const {
    RmsNorm<Host> op = RmsNormShape{.rows = rows, .dim = dim, .type = DType::f32}.make(tensors);
    over(op.x).as<float>()[dim + 9] = 3e38f;
    op.eps = eps;
    return op;
  }
};

inline std::vector<Problem> small_rows() {
  constexpr DType f16 = DType::f16, f32 = DType::f32, i4 = DType::i4;
  // Alone as softcap is behind a head, and as a gate.
  const auto gelu = [](GeluForm form) {
    return GeluShape{.rows = 5, .dim = 1200, .form = form, .has_up = form != GeluForm::softcap};
  };
  const auto softmax = [](index n) {
    return SoftmaxShape{.heads = 2, .rows = 5, .n = n, .scale = 0.5f, .mask = DType::f32, .has_sink = true};
  };
  const auto blocks = [](GgmlType format) { return EmbeddingShape{3, 5, 1024, DType::u8, f16, format}; };
  // Token t by row t, or by the row that its position names.
  const auto rope = [](bool interleaved, index cached) {
    return RopeShape{
        .tokens = 5, .heads = 6, .dim = 80, .interleaved = interleaved, .pairs = 32, .first = 8, .cached = cached};
  };
  // Of two means the selection takes one, whatever the other is.
  const auto may_hide = [](Problem one) {
    one.may_hide = true;
    return one;
  };
  return {
      problem("add of a bias", AddShape{.rows = 9, .dim = 1500, .is_bias = true}),
      problem("swiglu", SwigluShape{.rows = 5, .dim = 1500, .limit = 3}), problem("gelu", gelu(GeluForm::erf)),
      problem("gelu, tanh", gelu(GeluForm::tanh)), problem("gelu, quick", gelu(GeluForm::quick)),
      problem("gelu, relu_squared", gelu(GeluForm::relu_squared)), problem("gelu, softcap", gelu(GeluForm::softcap)),
      problem("gelu, xielu", gelu(GeluForm::xielu)),
      problem("rms_norm", RmsNormShape{.rows = 29, .dim = 768, .weight = f16}),
      problem("rms_norm, f32 weights", RmsNormShape{.rows = 29, .dim = 768, .weight_offset = 1}),
      problem("layer_norm", LayerNormShape{.rows = 29, .dim = 768, .weight = f16}),
      problem("layer_norm of f32", LayerNormShape{.rows = 29, .dim = 384, .type = DType::f32}),
      // Five sweeps over pieces of a row, four of f16.
      problem("layer_norm of long rows",
              LayerNormShape{.rows = 3, .dim = 2500, .type = DType::f32, .has_residual = true}),
      may_hide(
          problem("layer_norm of any numbers", LayerNormShape{.rows = 3, .dim = 2500, .type = DType::f32, .eps = 0})),
      problem("layer_norm of long rows of f16", LayerNormShape{.rows = 3, .dim = 2500, .has_residual = true}),
      problem("moe_combine", MoeCombineShape{.tokens = 5, .dim = 1200, .top_k = 3, .type = f16, .to = f16}),
      problem("moe_combine, gated",
              MoeCombineShape{.tokens = 9, .dim = 70, .top_k = 2, .type = f32, .to = f32, .has_gate = true}),
      problem("moe_routing", MoeRoutingShape{.tokens = 13, .experts = 48, .top_k = 5, .groups = 6, .groups_kept = 3}),
      problem("moe_routing in several tiles", MoeRoutingShape::qwen3(9, f16)),
      problem("moe_routing, softmax", MoeRoutingShape{.tokens = 9,
                                                      .experts = 40,
                                                      .top_k = 3,
                                                      .groups = 5,
                                                      .groups_kept = 2,
                                                      .type = f16,
                                                      .score = MoeScore::softmax,
                                                      .group_score = MoeGroupScore::best,
                                                      .has_bias = false}),
      // Most experts are no token's: their numbers may be any other.
      may_hide(problem("moe_routing, softmax_of_chosen", MoeRoutingShape::gpt_oss(3))),
      may_hide(problem("moe_routing, sparsemixer", MoeRoutingShape::phi_moe(3))),
      // Three sweeps over pieces of a row, a residual that is replaced.
      problem("rms_norm of long rows", RmsNormShape{.rows = 3, .dim = 2500, .to = DType::i8, .has_residual = true}),
      problem("rms_norm of large numbers", RowsOfAnyRange{29, 384, 1e-5f}),
      may_hide(problem("rms_norm of any numbers", RowsOfAnyRange{3, 2500, 0})), problem("softmax", softmax(200)),
      problem("softmax of long rows", softmax(2000)),
      problem("softmax, its logarithm", SoftmaxShape{.rows = 5, .n = 200, .mask = DType::boolean, .log = true}),
      problem("quantize of long rows", LongRowsOfCodes{true}),
      problem("quantize of long rows, without zeros", LongRowsOfCodes{false}),
      // Codes of half a byte whose rows share bytes.
      problem("quantize to half bytes",
              QuantizeShape{.rows = 4, .dim = 33, .type = f32, .code = i4, .is_dynamic = false}),
      problem("dequantize",
              DequantizeShape{
                  .rows = 5, .dim = 1536, .scale = f16, .scale_columns = 12, .column_group = 128, .has_zeros = true}),
      problem("dequantize half bytes", DequantizeShape{.rows = 4, .dim = 33, .from = i4, .type = f32, .scale_rows = 1}),
      problem("embedding", EmbeddingShape{9, 11, 700, DType::i8, f16}),
      problem("embedding of elements", EmbeddingShape{9, 11, 700, f16, f16}),
      problem("embedding Q8_0", blocks(GgmlType::Q8_0)), problem("embedding Q4_0", blocks(GgmlType::Q4_0)),
      problem("embedding Q4_1", blocks(GgmlType::Q4_1)), problem("embedding Q4_K", blocks(GgmlType::Q4_K)),
      problem("embedding Q6_K", blocks(GgmlType::Q6_K)), problem("embedding Q5_K", blocks(GgmlType::Q5_K)),
      problem("embedding Q5_1", blocks(GgmlType::Q5_1)), problem("embedding IQ4_XS", blocks(GgmlType::IQ4_XS)),
      problem("embedding MXFP4", blocks(GgmlType::MXFP4)), problem("rope", rope(false, 7)),
      problem("rope, row by row", rope(false, 0)), problem("rope interleaved", rope(true, 7))};
}

}  // namespace inlay::npu::test
