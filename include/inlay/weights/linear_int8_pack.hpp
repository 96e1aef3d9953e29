// Packs the weight of linear_int8, once, when a model is loaded: see linear_int8.hpp for the layout.
//
//   const auto extents = linear_int8::packed_extents(n, k);
//   auto status = pack_linear_int8(rows, View<3>(memory, DType::i8, extents), sums);
#pragma once

#include <cstring>
#include <string>

#include <inlay/ops/linear_int8.hpp>

namespace inlay {

// Packs w [n, k] (i8, or u8 from which 128 is taken: then weight_zero is the zero point minus 128)
// into `packed`, of packed_extents(n, k), and sums its rows into `sums` [n]. Where w comes from
// floats, the operator quantize with row_scale gives w and weight_scale, one scale a channel.
inline Status pack_linear_int8(ConstView<2> w, View<3> packed, View<1> sums) {
  using namespace linear_int8;
  const index n = w.extents[0], k = w.extents[1];
  if (w.dtype != DType::i8 && w.dtype != DType::u8)
    return invalid("w has dtype " + std::string(name(w.dtype)) + "; it must be i8 or u8");
  if (!w.empty() && k > 1 && w.strides[1] != 1)
    return invalid("w has innermost stride " + std::to_string(w.strides[1]) + "; it must be 1");
  if (packed.dtype != DType::i8 || packed.extents != packed_extents(n, k) || !packed.contiguous())
    return invalid("packed has shape " + format_shape<3>(packed.extents) + " and dtype " +
                   std::string(name(packed.dtype)) + "; it must be contiguous i8 of shape " +
                   format_shape<3>(packed_extents(n, k)));
  if (sums.dtype != DType::i32 || sums.extents[0] != n || !sums.contiguous())
    return invalid("sums has extent " + std::to_string(sums.extents[0]) + " and dtype " +
                   std::string(name(sums.dtype)) + "; it must be contiguous i32 of " + std::to_string(n));
  std::int8_t* to = packed.as<std::int8_t>();
  const int shift = w.dtype == DType::u8 ? 128 : 0;
  if (!packed.empty()) std::memset(to, 0, static_cast<std::size_t>(packed.size()));
  const index groups = packed.extents[1];
  for (index o = 0; o < n; ++o) {
    std::int32_t sum = 0;
    for (index i = 0; i < k; ++i) {
      const index at = o * w.strides[0] + i;
      const int value = (shift ? w.as<std::uint8_t>()[at] : w.as<std::int8_t>()[at]) - shift;
      to[(o / panel * groups + i / group) * line + o % panel * group + i % group] = static_cast<std::int8_t>(value);
      sum += value;
    }
    sums.as<std::int32_t>()[o] = sum;
  }
  return {};
}

}  // namespace inlay
