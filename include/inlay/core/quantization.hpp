// Rows of a GGUF tensor: sizes, dequantization and quantization by run-time type.
//
//   dequantize_row(type, bytes, n, x)    n elements to f32; false where the type is none that is read
//   quantize_row(type, x, n, bytes)      F32 F16 BF16 Q8_0 Q4_0 Q4_1: the bytes that ggml writes
//   ggml_row_bytes(type, n)              bytes that n elements take; 0: unknown type, n is no multiple
//                                        of the block, or more bytes than an index counts
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>

#include <inlay/core/ggml_blocks.hpp>
#include <inlay/core/ggml_quantize.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/overflow.hpp>

namespace inlay {

// Values are those of GGUF files. Others exist (Q8_1, IQ2_XXS, ...): named below, and refused.
enum class GgmlType : std::uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  IQ4_NL = 20,
  IQ4_XS = 23,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  BF16 = 30,
  MXFP4 = 39,
};

struct GgmlFormat {
  std::string_view name;  // empty: no type has this number
  index block = 0;        // elements; 0: nothing here reads it
  index bytes = 0;        // of one block
};

namespace detail {

template <class Block> constexpr GgmlFormat format_of(std::string_view name) {
  return {name, Block::size, static_cast<index>(sizeof(Block))};
}

// By number, those that are not read too, so that a refusal can name them.
INLAY_HIDDEN inline constexpr GgmlFormat ggml_formats[] = {
    {"F32", 1, 4},
    {"F16", 1, 2},
    format_of<ggml::Q4_0>("Q4_0"),
    format_of<ggml::Q4_1>("Q4_1"),
    {},
    {},
    format_of<ggml::Q5_0>("Q5_0"),
    format_of<ggml::Q5_1>("Q5_1"),
    format_of<ggml::Q8_0>("Q8_0"),
    {"Q8_1"},
    format_of<ggml::Q2_K>("Q2_K"),
    format_of<ggml::Q3_K>("Q3_K"),
    format_of<ggml::Q4_K>("Q4_K"),
    format_of<ggml::Q5_K>("Q5_K"),
    format_of<ggml::Q6_K>("Q6_K"),
    {"Q8_K"},
    {"IQ2_XXS"},
    {"IQ2_XS"},
    {"IQ3_XXS"},
    {"IQ1_S"},
    format_of<ggml::IQ4_NL>("IQ4_NL"),
    {"IQ3_S"},
    {"IQ2_S"},
    format_of<ggml::IQ4_XS>("IQ4_XS"),
    {"I8", 1, 1},
    {"I16", 1, 2},
    {"I32", 1, 4},
    {"I64", 1, 8},
    {"F64", 1, 8},
    {"IQ1_M"},
    {"BF16", 1, 2},
    {},
    {},
    {},
    {"TQ1_0"},
    {"TQ2_0"},
    {},
    {},
    {},
    format_of<ggml::MXFP4>("MXFP4"),
    {"NVFP4"},
    {"Q1_0"},
};

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

constexpr GgmlFormat ggml_format(GgmlType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(detail::ggml_formats) ? detail::ggml_formats[number] : GgmlFormat();
}

constexpr bool is_known(GgmlType type) { return ggml_format(type).block != 0; }
constexpr bool is_quantized(GgmlType type) { return ggml_format(type).block > 1; }

constexpr index ggml_row_bytes(GgmlType type, index n) {
  const GgmlFormat format = ggml_format(type);
  if (format.block == 0 || n < 0 || n % format.block != 0) return 0;
  index bytes = 0;
  return checked_multiply(n / format.block, format.bytes, bytes) ? bytes : 0;
}

// body(std::type_identity<Block>()) with the block of a quantized type. False: it is none.
template <class Body> bool with_block(GgmlType type, Body&& body) {
  switch (type) {
    case GgmlType::Q4_0: return body(std::type_identity<ggml::Q4_0>()), true;
    case GgmlType::Q4_1: return body(std::type_identity<ggml::Q4_1>()), true;
    case GgmlType::Q5_0: return body(std::type_identity<ggml::Q5_0>()), true;
    case GgmlType::Q5_1: return body(std::type_identity<ggml::Q5_1>()), true;
    case GgmlType::Q8_0: return body(std::type_identity<ggml::Q8_0>()), true;
    case GgmlType::Q2_K: return body(std::type_identity<ggml::Q2_K>()), true;
    case GgmlType::Q3_K: return body(std::type_identity<ggml::Q3_K>()), true;
    case GgmlType::Q4_K: return body(std::type_identity<ggml::Q4_K>()), true;
    case GgmlType::Q5_K: return body(std::type_identity<ggml::Q5_K>()), true;
    case GgmlType::Q6_K: return body(std::type_identity<ggml::Q6_K>()), true;
    case GgmlType::IQ4_NL: return body(std::type_identity<ggml::IQ4_NL>()), true;
    case GgmlType::IQ4_XS: return body(std::type_identity<ggml::IQ4_XS>()), true;
    case GgmlType::MXFP4: return body(std::type_identity<ggml::MXFP4>()), true;
    default: return false;
  }
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
    default:
      with_block(type, [&]<class Block>(std::type_identity<Block>) { detail::dequantize_blocks<Block>(bytes, n, x); });
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
