// moe_routing of tokens at some size. The defaults are DeepSeek-V3's.
#pragma once

#include <inlay/ops/moe_routing.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct MoeRoutingShape {
  index tokens = 256, experts = 256, top_k = 8, groups = 8, groups_kept = 4;
  DType type = DType::f32;
  MoeScore score = MoeScore::sigmoid;
  MoeGroupScore group_score = MoeGroupScore::sum_of_two;
  bool has_bias = true, renormalize = true;
  float scale = 2.5f, jitter = 0;

  void read(auto& from) {
    from.size("tokens", tokens), from.size("experts", experts), from.size("top_k", top_k);
    from.size("groups", groups), from.size("groups_kept", groups_kept), from.type("type", type);
    from.flag("bias", has_bias), from.flag("renormalize", renormalize);
  }
  static MoeRoutingShape qwen3(index tokens, DType type = DType::f32) {
    return {.tokens = tokens,
            .experts = 128,
            .groups = 1,
            .groups_kept = 1,
            .type = type,
            .score = MoeScore::softmax,
            .group_score = MoeGroupScore::best,
            .has_bias = false,
            .scale = 1};
  }
  static MoeRoutingShape gpt_oss(index tokens, DType type = DType::bf16) {
    MoeRoutingShape shape = qwen3(tokens, type);
    shape.top_k = 4, shape.score = MoeScore::softmax_of_chosen, shape.renormalize = false;
    return shape;
  }

  static MoeRoutingShape phi_moe(index tokens, DType type = DType::f32) {
    MoeRoutingShape shape = qwen3(tokens, type);
    shape.experts = 16, shape.top_k = 2, shape.score = MoeScore::sparsemixer, shape.renormalize = false;
    shape.jitter = 0.01f;
    return shape;
  }

  MoeRouting<Host> make(Tensors& tensors) const {
    return {.logits = tensors.in(type, {tokens, experts}, {{-4, 4}}),
            .bias = has_bias ? tensors.kept(DType::f32, {experts}, {{-0.1, 0.1}}) : ConstView<1>(),
            .weights = tensors.out(DType::f32, {tokens, top_k}),
            .ids = tensors.out(DType::i32, {tokens, top_k}),
            .rows = tensors.out(DType::i32, {tokens, top_k}),
            .row_tokens = tensors.out(DType::i32, {tokens * top_k}),
            .expert_ends = tensors.out(DType::i32, {experts}),
            .score = score,
            .groups = groups,
            .groups_kept = groups_kept,
            .group_score = group_score,
            .renormalize = renormalize,
            .scale = scale,
            .jitter = jitter};
  }
  // A score is some 20 operations, and each look for the largest reads what is left of a token's.
  CallCost cost() const {
    const double written = 4 * bytes_of(DType::i32, tokens * top_k);
    return {.bytes = bytes_of(type, tokens * experts) + 2 * written,
            .written = written,
            .flops = 24 * static_cast<double>(tokens * experts)};
  }
};

}  // namespace inlay
