// moe_combine of tokens at some size. The defaults are DeepSeek-V3's.
#pragma once

#include <inlay/ops/moe_combine.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct MoeCombineShape {
  index tokens = 64, dim = 7168, top_k = 8;
  DType type = DType::bf16, to = DType::bf16;
  bool has_shared = true, has_gate = false;

  void read(auto& from) {
    from.size("tokens", tokens), from.size("dim", dim), from.size("top_k", top_k);
    from.type("type", type), from.type("to", to), from.flag("shared", has_shared), from.flag("gate", has_gate);
  }
  // Each row of x is one token's, and rows of a token lie far from one another, as they do sorted by expert.
  MoeCombine<Host> make(Tensors& tensors) const {
    const auto row = [&](index i) { return i % top_k * tokens + i / top_k; };
    return {.x = tensors.in(type, {tokens * top_k, dim}),
            .rows = tensors.list(DType::i32, {tokens, top_k}, row),
            .weights = tensors.kept(DType::f32, {tokens, top_k}, {{0, 0.5}}),
            .shared = has_shared ? tensors.in(type, {tokens, dim}) : ConstView<2>(),
            .shared_gate = has_gate ? tensors.kept(type, {tokens, 1}) : ConstView<2>(),
            .y = tensors.out(to, {tokens, dim})};
  }
  CallCost cost() const {
    const double read = bytes_of(type, tokens * dim * (top_k + has_shared)), y = bytes_of(to, tokens * dim);
    return {.bytes = read + 2 * y, .written = y, .flops = 2 * static_cast<double>(tokens * dim * (top_k + has_shared))};
  }
};

}  // namespace inlay
