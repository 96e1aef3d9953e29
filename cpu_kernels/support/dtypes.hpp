// From a run-time dtype to a C++ type: with_float(x.dtype, [&]<class T>(Type<T>) { ... }).
#pragma once

#include <type_traits>

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::cpu {

template <class T> using Type = std::type_identity<T>;

// f32, f16 or bf16: check() has refused the others.
template <class Call> INLAY_INLINE auto with_float(DType type, Call&& call) {
  switch (type) {
    case DType::f16: return call(Type<f16>{});
    case DType::bf16: return call(Type<bf16>{});
    default: return call(Type<float>{});
  }
}

}  // namespace inlay::cpu
