// Rotated heads at some size.
#pragma once

#include <inlay/ops/rope.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct RopeShape {
  index tokens = 1024, heads = 32, dim = 128;
  DType type = DType::f16;
  bool interleaved = false, in_place = false;
  index pairs = dim / 2, first = 0;
  index cached = 0;  // rows of the tables, which positions name; 0: token t turns by row t

  void read(auto& from) {
    from.size("tokens", tokens), from.size("heads", heads), from.size("dim", dim, 2);
    from.type("type", type), from.flag("interleaved", interleaved);
    pairs = dim / 2;
  }
  Rope<Host> make(Tensors& tensors) const {
    const auto x = tensors.in(type, {tokens, heads, dim});
    const index rows = cached > 0 ? cached : tokens;
    const auto position = [&](index t) { return t * 7919 % cached; };
    return {.x = x,
            .cos = tensors.kept(DType::f32, {rows, pairs}),
            .sin = tensors.kept(DType::f32, {rows, pairs}),
            .positions = cached > 0 ? tensors.list(DType::i32, {tokens}, position) : ConstView<1>(),
            .y = in_place ? over(x) : tensors.out(type, {tokens, heads, dim}),
            .first = first,
            .interleaved = interleaved};
  }
  // The tables of a token serve all heads.
  CallCost cost() const {
    const double y = bytes_of(type, tokens * heads * dim), tables = bytes_of(DType::f32, 2 * tokens * pairs);
    return {
        .bytes = (2 + !in_place) * y + tables, .written = y, .flops = 3 * static_cast<double>(tokens * heads * dim)};
  }
};

}  // namespace inlay
