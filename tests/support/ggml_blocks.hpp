// Block formats of GGUF files for tests: what gguf-py reads in some blocks, and where random bytes have their scales.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <inlay/core/quantization.hpp>

#include "tests/support/source_dir.hpp"

namespace inlay::test {

inline constexpr GgmlType block_formats[] = {
    GgmlType::Q8_0, GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q5_0,   GgmlType::Q5_1,   GgmlType::Q2_K, GgmlType::Q3_K,
    GgmlType::Q4_K, GgmlType::Q5_K, GgmlType::Q6_K, GgmlType::IQ4_NL, GgmlType::IQ4_XS, GgmlType::MXFP4};

// Elements that share a scale.
inline index group_of(GgmlType format) {
  index group = 0;
  with_block(format, [&]<class Block>(std::type_identity<Block>) { group = Block::group; });
  return group;
}

// The bytes of a block that hold the exponents of its scale and, behind it, of its minimum.
inline std::vector<index> exponents_in(GgmlType format) {
  switch (format) {
    case GgmlType::MXFP4: return {0};
    case GgmlType::Q2_K: return {81, 83};
    case GgmlType::Q3_K: return {109};
    case GgmlType::Q6_K: return {209};
    case GgmlType::Q4_1:
    case GgmlType::Q5_1:
    case GgmlType::Q4_K:
    case GgmlType::Q5_K: return {1, 3};
    default: return {1};
  }
}
// Such a byte of a number near 0.06.
inline std::uint8_t small_exponent(GgmlType format) { return format == GgmlType::MXFP4 ? 124 : 0x2b; }

struct GgmlVector {
  GgmlType type;
  std::vector<std::uint8_t> bytes;
  std::vector<float> numbers;
};

// One for each of block_formats: ggml_blocks.bin, which make_ggml_blocks.py writes.
inline std::vector<GgmlVector> gguf_py_vectors() {
  std::ifstream file(source_path("tests/support/ggml_blocks.bin"), std::ios::binary);
  const std::vector<char> all(std::istreambuf_iterator<char>(file), {});
  std::vector<GgmlVector> vectors;
  const char* from = all.data();
  const auto take = [&](auto* to, index count) {
    const index bytes = count * static_cast<index>(sizeof(*to));
    if (all.data() + all.size() - from < bytes) return false;
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    from += bytes;
    return true;
  };
  for (std::uint32_t head[2]; take(head, 2);) {
    GgmlVector vector{static_cast<GgmlType>(head[0]), {}, {}};
    const GgmlFormat format = ggml_format(vector.type);
    vector.bytes.resize(static_cast<std::size_t>(format.bytes * head[1]));
    vector.numbers.resize(static_cast<std::size_t>(format.block * head[1]));
    const bool whole =
        take(vector.bytes.data(), format.bytes * head[1]) && take(vector.numbers.data(), format.block * head[1]);
    EXPECT_TRUE(whole) << "ggml_blocks.bin ends early";
    vectors.push_back(std::move(vector));
  }
  EXPECT_EQ(vectors.size(), std::size(block_formats));
  return vectors;
}

}  // namespace inlay::test
