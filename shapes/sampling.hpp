// Tokens drawn from rows of logits, the largest of each if nothing else is said, at some size.
#pragma once

#include <random>

#include <inlay/ops/sampling.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct SamplingShape {
  index rows = 1, vocab = 128256;
  bool has_probs = false;

  void read(auto& from) { from.size("rows", rows), from.size("vocab", vocab); }
  Sampling<Host> make(Tensors& tensors) const {
    // As wide as a model's: what a filter leaves follows from that.
    const auto draw = [](View<2> logits) {
      std::mt19937 rng(1);
      std::normal_distribution<float> values(0, 3);
      for (index i = 0; i < logits.size(); ++i) logits.as<float>()[i] = values(rng);
    };
    return {.logits = tensors.filled(DType::f32, std::array{rows, vocab}, draw),
            .tokens = tensors.kept_out(DType::i32, {rows}),
            .probs = has_probs ? tensors.kept_out(DType::f32, {rows, vocab}) : View<2>(),
            .temperature = 0};
  }
  CallCost cost() const { return {.bytes = bytes_of(DType::f32, rows * vocab)}; }
};

}  // namespace inlay
