// Numbers around and below a type's smallest normal one.
#pragma once

#include <array>
#include <vector>

#include "tests/support/cases.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

// Of f32, in which operators compute, it is what flushing may take from an operand or a result.
inline double smallest_normal(DType type = DType::f32) { return type == DType::f16 ? 0x1p-14 : 0x1p-126; }

inline const std::vector<index> subnormal_sizes = {1, 7, 8, 15, 16, 17, 33, 65, 129};

// Of both signs: below the type's smallest normal number down to its least one, and some just above it.
// With `mixed`, a quarter is between -1 and 1.
template <int Rank> Tensor<Rank>& subnormals(Tensor<Rank>& tensor, Rng& rng, bool mixed = false) {
  const double normal = smallest_normal(tensor.dtype()), least = 2 * underflow(tensor.dtype());
  std::uniform_real_distribution<double> values(0, 1);
  for (index k = 0; k < tensor.size(); ++k) {
    const double size =
        std::array{normal * values(rng), least, normal * (1 + values(rng)), mixed ? values(rng) : normal}[rng() % 4];
    tensor.set(k, rng() % 2 ? size : -size);
  }
  return tensor;
}

}  // namespace inlay::test
