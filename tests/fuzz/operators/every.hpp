// Every operator that is drawn at random, and what the environment says of how many and from where.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "measure/cases/attention.hpp"
#include "measure/cases/linear.hpp"
#include "measure/cases/rows.hpp"

namespace inlay::fuzz {

using namespace cases;  // what is drawn

using EveryOperator =
    ::testing::Types<Add<Host>, Swiglu<Host>, Gelu<Host>, Skeleton<Host>, LayerNorm<Host>, RmsNorm<Host>, Softmax<Host>,
                     RopeTable<Host>, Rope<Host>, Embedding<Host>, Quantize<Host>, Dequantize<Host>, MergeStates<Host>,
                     MoeRouting<Host>, MoeCombine<Host>, Sampling<Host>, Linear<Host>, LinearInt8<Host>,
                     LinearW4a16<Host>, FlashAttention<Host>, IncreFlashAttention<Host>, PagedAttention<Host>,
                     ReshapeAndCache<Host>, CopyBlocks<Host>, SwapBlocks<Host>>;
struct OperatorNames {
  template <class Op> static std::string GetName(int) { return std::string(Op::name); }
};

// The number that the environment has under `name`.
inline std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace inlay::fuzz
