// Rows of a GGUF tensor: sizes, dequantization and quantization by run-time type.
//
//   dequantize_row(type, bytes, n, x)    n elements to f32; false where the type is not one of these
//   quantize_row(type, x, n, bytes)      F32 F16 BF16 Q8_0 Q4_0 Q4_1: the bytes that ggml writes
//   ggml_row_bytes(type, n)              bytes that n elements take; 0: unknown type, n is no multiple
//                                        of the block, or more bytes than an index counts
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include <inlay/core/ggml_blocks.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/overflow.hpp>

namespace inlay {

// Values are those of GGUF files. Others exist (Q5_K, IQ4_XS, ...): unknown here, and refused.
enum class GgmlType : std::uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q8_0 = 8,
  Q4_K = 12,
  Q6_K = 14,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  BF16 = 30,
};

struct GgmlFormat {
  std::string_view name;  // empty: unknown
  index block = 0;        // elements
  index bytes = 0;        // of one block
};

inline namespace INLAY_UNIT_ISA {

constexpr GgmlFormat ggml_format(GgmlType type) {
  switch (type) {
    case GgmlType::F32: return {"F32", 1, 4};
    case GgmlType::F16: return {"F16", 1, 2};
    case GgmlType::Q4_0: return {"Q4_0", ggml::Q4_0::size, sizeof(ggml::Q4_0)};
    case GgmlType::Q4_1: return {"Q4_1", ggml::Q4_1::size, sizeof(ggml::Q4_1)};
    case GgmlType::Q8_0: return {"Q8_0", ggml::Q8_0::size, sizeof(ggml::Q8_0)};
    case GgmlType::Q4_K: return {"Q4_K", ggml::Q4_K::size, sizeof(ggml::Q4_K)};
    case GgmlType::Q6_K: return {"Q6_K", ggml::Q6_K::size, sizeof(ggml::Q6_K)};
    case GgmlType::I8: return {"I8", 1, 1};
    case GgmlType::I16: return {"I16", 1, 2};
    case GgmlType::I32: return {"I32", 1, 4};
    case GgmlType::I64: return {"I64", 1, 8};
    case GgmlType::F64: return {"F64", 1, 8};
    case GgmlType::BF16: return {"BF16", 1, 2};
  }
  return {};
}

constexpr bool is_known(GgmlType type) { return ggml_format(type).block != 0; }
constexpr bool is_quantized(GgmlType type) { return ggml_format(type).block > 1; }

constexpr index ggml_row_bytes(GgmlType type, index n) {
  const GgmlFormat format = ggml_format(type);
  if (format.block == 0 || n < 0 || n % format.block != 0) return 0;
  index bytes = 0;
  return checked_multiply(n / format.block, format.bytes, bytes) ? bytes : 0;
}

}  // namespace INLAY_UNIT_ISA

namespace detail {

inline namespace INLAY_UNIT_ISA {

// Files promise no alignment: every block is copied out before it is read.
template <class Block> void dequantize_blocks(const void* bytes, index n, float* x) {
  const char* from = static_cast<const char*>(bytes);
  for (index i = 0; i < n; i += Block::size, from += sizeof(Block)) {
    Block block;
    std::memcpy(&block, from, sizeof(Block));
    dequantize_block(block, x + i);
  }
}
template <class Block> void quantize_blocks(const float* x, index n, void* bytes) {
  char* to = static_cast<char*>(bytes);
  for (index i = 0; i < n; i += Block::size, to += sizeof(Block)) {
    Block block;
    quantize_block(x + i, block);
    std::memcpy(to, &block, sizeof(Block));
  }
}
template <class T> void widen_row(const void* bytes, index n, float* x) {
  for (index i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, static_cast<const char*>(bytes) + i * static_cast<index>(sizeof(T)), sizeof(T));
    x[i] = static_cast<float>(value);
  }
}
template <class T> void narrow_row(const float* x, index n, void* bytes) {
  for (index i = 0; i < n; ++i) {
    const T value(x[i]);
    std::memcpy(static_cast<char*>(bytes) + i * static_cast<index>(sizeof(T)), &value, sizeof(T));
  }
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

// `bytes` may lie anywhere. False, and nothing written: unknown type, or a broken last block.
inline bool dequantize_row(GgmlType type, const void* bytes, index n, float* x) {
  if (!is_known(type) || n < 0 || n % ggml_format(type).block != 0) return false;
  switch (type) {
    case GgmlType::F32: detail::widen_row<float>(bytes, n, x); break;
    case GgmlType::F16: detail::widen_row<f16>(bytes, n, x); break;
    case GgmlType::BF16: detail::widen_row<bf16>(bytes, n, x); break;
    case GgmlType::F64: detail::widen_row<double>(bytes, n, x); break;
    case GgmlType::I8: detail::widen_row<std::int8_t>(bytes, n, x); break;
    case GgmlType::I16: detail::widen_row<std::int16_t>(bytes, n, x); break;
    case GgmlType::I32: detail::widen_row<std::int32_t>(bytes, n, x); break;
    case GgmlType::I64: detail::widen_row<std::int64_t>(bytes, n, x); break;
    case GgmlType::Q8_0: detail::dequantize_blocks<ggml::Q8_0>(bytes, n, x); break;
    case GgmlType::Q4_0: detail::dequantize_blocks<ggml::Q4_0>(bytes, n, x); break;
    case GgmlType::Q4_1: detail::dequantize_blocks<ggml::Q4_1>(bytes, n, x); break;
    case GgmlType::Q4_K: detail::dequantize_blocks<ggml::Q4_K>(bytes, n, x); break;
    case GgmlType::Q6_K: detail::dequantize_blocks<ggml::Q6_K>(bytes, n, x); break;
  }
  return true;
}

// False, and nothing written: a type without a quantizer here, or a broken last block.
inline bool quantize_row(GgmlType type, const float* x, index n, void* bytes) {
  if (!is_known(type) || n < 0 || n % ggml_format(type).block != 0) return false;
  switch (type) {
    case GgmlType::F32: detail::narrow_row<float>(x, n, bytes); return true;
    case GgmlType::F16: detail::narrow_row<f16>(x, n, bytes); return true;
    case GgmlType::BF16: detail::narrow_row<bf16>(x, n, bytes); return true;
    case GgmlType::Q8_0: detail::quantize_blocks<ggml::Q8_0>(x, n, bytes); return true;
    case GgmlType::Q4_0: detail::quantize_blocks<ggml::Q4_0>(x, n, bytes); return true;
    case GgmlType::Q4_1: detail::quantize_blocks<ggml::Q4_1>(x, n, bytes); return true;
    default: return false;
  }
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
