// Packs the weight of a linear layer, once, when a model is loaded: see linear.hpp for the layout.
//
//   const auto extents = linear_packed_extents(n, k, DType::bf16);
//   auto status = pack_linear(openmp(), rows, View<3>(memory, DType::bf16, extents));
#pragma once

#include <cstring>

#include <inlay/core/parallel.hpp>
#include <inlay/ops/linear.hpp>

namespace inlay {

namespace detail {

// Elements of the packed type are copied as they are, bit for bit; others go through f32 and are
// rounded to nearest even once.
template <class To, class From> To linear_element(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else
    return To(static_cast<float>(value));
}

template <class From, class To> void pack_linear_panel(const ConstView<2>& weight, const View<3>& packed, index panel) {
  const index n = weight.extents[0], k = weight.extents[1], pair = linear_interleave(dtype_of<To>);
  const index steps = packed.extents[1], width = packed.extents[2];
  To* const out = packed.as<To>() + panel * packed.strides[0];
  for (index lane = 0; lane < linear_panel; ++lane) {
    const index channel = panel * linear_panel + lane;
    const index filled = channel < n ? k : 0;
    const From* const row = weight.as<From>() + (channel < n ? channel * weight.strides[0] : 0);
    To* const column = out + lane * pair;
    for (index i = 0; i < filled; ++i) column[i / pair * width + i % pair] = linear_element<To>(row[i]);
    for (index i = filled; i < steps * pair; ++i) column[i / pair * width + i % pair] = To(0.0f);
  }
}

template <class Call> void with_float_type(DType type, Call&& call) {
  switch (type) {
    case DType::f16: return call(f16{});
    case DType::bf16: return call(bf16{});
    default: return call(float{});
  }
}

}  // namespace detail

// `weight` [n, k] f32 f16 bf16, row stride free; `packed` has the shape that linear_packed_extents
// gives for its own dtype, which may be another one: values are rounded to nearest even.
inline Status pack_linear(const Parallel& parallel, const ConstView<2>& weight, const View<3>& packed) {
  const index n = weight.extents[0], k = weight.extents[1];
  const auto expected = linear_packed_extents(n, k, packed.dtype);
  if (!floats.contains(weight.dtype))
    return invalid("weight has dtype " + std::string(name(weight.dtype)) + "; it must be one of f32 f16 bf16");
  if (!floats.contains(packed.dtype))
    return invalid("packed has dtype " + std::string(name(packed.dtype)) + "; it must be one of f32 f16 bf16");
  if (n < 0 || k < 0)
    return invalid("weight has shape " + format_shape<2>(weight.extents) + "; no extent may be negative");
  if (packed.extents != expected)
    return invalid("packed has shape " + format_shape<3>(packed.extents) + "; it must be " + format_shape<3>(expected));
  if (packed.empty()) return {};
  if (weight.data == nullptr && !weight.empty()) return invalid("weight has no memory; its data must not be null");
  if (packed.data == nullptr) return invalid("packed has no memory; its data must not be null");
  if (!packed.contiguous()) return invalid("packed is strided; it must be contiguous");
  if (k > 1 && weight.strides[1] != 1)
    return invalid("weight has innermost stride " + std::to_string(weight.strides[1]) + "; it must be 1");
  if (overlap(packed, weight)) return invalid("packed overlaps weight; it must have memory of its own");
  detail::with_float_type(weight.dtype, [&]<class From>(From) {
    detail::with_float_type(packed.dtype, [&]<class To>(To) {
      parallel(packed.extents[0], [&](index panel) { detail::pack_linear_panel<From, To>(weight, packed, panel); });
    });
  });
  return {};
}

}  // namespace inlay
