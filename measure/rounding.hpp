// What rounding to a type may take of a number.
#pragma once

#include <algorithm>
#include <cmath>

#include <inlay/core/dtype.hpp>

namespace inlay::measure {

// Half the distance between 1 and the next number: the largest relative error of one rounding.
inline double epsilon(DType type) {
  switch (type) {
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0;
  }
}

// Below this a type has no relative precision: half its smallest subnormal.
inline double underflow(DType type) {
  switch (type) {
    case DType::f32: return 0x1p-150;
    case DType::f16: return 0x1p-25;
    case DType::bf16: return 0x1p-134;
    default: return 0;
  }
}

// Half the distance between |x| and the next number of the type: what rounding to nearest may take.
inline double half_ulp(DType type, double x) {
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| = [0.5, 1) 2^exponent
  return std::isfinite(x) ? std::max(std::ldexp(epsilon(type), exponent - 1), underflow(type)) : 0;
}

}  // namespace inlay::measure
