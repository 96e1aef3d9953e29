// Partial results of attention, joined, at some size.
#pragma once

#include <inlay/ops/merge_states.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct MergeStatesShape {
  index states = 4, tokens = 64, heads = 32, dim = 128;
  DType type = DType::f32, to = type;
  bool has_lse = false;

  void read(auto& from) {
    from.size("states", states), from.size("tokens", tokens), from.size("heads", heads), from.size("dim", dim);
    from.type("type", type);
    to = type;
  }
  MergeStates<Host> make(Tensors& tensors) const {
    return {.partial_out = tensors.in(type, {states, tokens, heads, dim}),
            .partial_lse = tensors.kept(DType::f32, {states, tokens, heads}, {{-4, 4}}),
            .out = tensors.out(to, {tokens, heads, dim}),
            .lse = has_lse ? tensors.out(DType::f32, {tokens, heads}) : View<2>()};
  }
  CallCost cost() const {
    const index elements = tokens * heads * dim;
    return {.bytes = bytes_of(type, states * elements) + 2 * bytes_of(to, elements),
            .written = bytes_of(to, elements),
            .flops = 2 * static_cast<double>(states * elements)};
  }
};

}  // namespace inlay
