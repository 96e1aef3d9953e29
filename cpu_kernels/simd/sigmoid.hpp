// sigmoid(z) = 1 / (1 + exp(-z)).
#pragma once

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

// By e = exp(-|z|) <= 1, so that nothing overflows and the small side keeps its relative accuracy:
// e / (1 + e) for z < 0, else 1 / (1 + e). Below 4 ulp down to z = -87, where e becomes subnormal.
template <class F> INLAY_INLINE F sigmoid(F z) {
  const F e = exp_below(F() - abs(z));
  return select(z < F(), e, F(1.0f)) / (F(1.0f) + e);
}

}  // namespace inlay::simd
