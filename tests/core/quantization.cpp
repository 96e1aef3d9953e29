// GGUF's block formats against bytes that ggml itself wrote (../shared/data/quants), where they lie.
#include <inlay/core/quantization.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/support/ggml_blocks.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::test {
namespace {

using Bytes = std::vector<char>;

struct Vector {
  std::vector<float> input;
  Bytes expected;
};

// Empty where the data is absent.
Vector vector_of(const std::string& stem) {
  const auto read = [&](const char* kind) {
    std::ifstream file(inlay::test::source_path("../shared/data/quants/") + stem + kind, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(file), {});
  };
  Vector v;
  const Bytes input = read("_input.bin");
  v.input.resize(input.size() / sizeof(float));
  std::copy(input.begin(), input.end(), reinterpret_cast<char*>(v.input.data()));
  v.expected = read("_expected.bin");
  if (v.input.empty()) std::cout << "no ../shared/data/quants/" << stem << ": nothing compared\n";
  return v;
}

TEST(quantization, row_bytes) {
  EXPECT_EQ(ggml_row_bytes(GgmlType::Q8_0, 64), 68);
  EXPECT_EQ(ggml_row_bytes(GgmlType::Q4_0, 64), 36);
  EXPECT_EQ(ggml_row_bytes(GgmlType::Q4_1, 64), 40);
  EXPECT_EQ(ggml_row_bytes(GgmlType::Q4_K, 512), 288);
  EXPECT_EQ(ggml_row_bytes(GgmlType::Q6_K, 512), 420);
  EXPECT_EQ(ggml_row_bytes(GgmlType::BF16, 7), 14);
  EXPECT_EQ(ggml_row_bytes(GgmlType::Q4_0, 33), 0);
  for (const std::uint32_t unread : {4u, 9u, 15u, 19u, 41u, 42u, ~0u}) {
    EXPECT_EQ(ggml_row_bytes(static_cast<GgmlType>(unread), 256), 0);
    EXPECT_FALSE(is_known(static_cast<GgmlType>(unread)));
    EXPECT_FALSE(dequantize_row(static_cast<GgmlType>(unread), nullptr, 256, nullptr));
  }
  EXPECT_EQ(ggml_format(static_cast<GgmlType>(19)).name, "IQ1_S");
  EXPECT_EQ(ggml_format(static_cast<GgmlType>(41)).name, "Q1_0");
  EXPECT_EQ(ggml_format(static_cast<GgmlType>(4)).name, "");
  EXPECT_FALSE(dequantize_row(GgmlType::Q4_K, nullptr, 255, nullptr));
  EXPECT_FALSE(quantize_row(GgmlType::Q4_K, nullptr, 256, nullptr));
}

TEST(quantization, writes_the_bytes_that_ggml_writes) {
  for (const auto& [type, stem] : {std::pair{GgmlType::Q8_0, "q8_0_64_noim"}, std::pair{GgmlType::Q4_0, "q4_0_64_noim"},
                                   std::pair{GgmlType::Q4_1, "q4_1_64_noim"}}) {
    const Vector v = vector_of(stem);
    if (v.input.empty()) continue;
    const index n = static_cast<index>(v.input.size());
    ASSERT_EQ(ggml_row_bytes(type, n), static_cast<index>(v.expected.size()));
    Bytes got(v.expected.size());
    ASSERT_TRUE(quantize_row(type, v.input.data(), n, got.data()));
    EXPECT_EQ(got, v.expected) << stem;
  }
}

// ggml's own quantizers put every element within a step of the code grid of where it was: half a
// step for rounding, and what the scale's own rounding (f16, or six and eight bits of it) moves the
// far codes, less than another half. The step is the largest gap between neighbouring codes. With an
// importance matrix (im) ggml tries scales that put the largest element up to 0.9 steps beyond the
// last code, and clips it.
TEST(quantization, reads_what_ggml_wrote) {
  for (const auto& [type, stem, codes] :
       {std::tuple{GgmlType::Q8_0, "q8_0_64_", 254.0}, std::tuple{GgmlType::Q4_0, "q4_0_64_", 15.0},
        std::tuple{GgmlType::Q4_1, "q4_1_64_", 15.0}, std::tuple{GgmlType::Q4_K, "q4_k_512_", 15.0},
        std::tuple{GgmlType::Q6_K, "q6_k_512_", 62.0}})
    for (const char* kind : {"noim", "im"}) {
      const Vector v = vector_of(std::string(stem) + kind);
      if (v.input.empty()) continue;
      const index n = static_cast<index>(v.input.size());
      std::vector<float> x(v.input.size());
      ASSERT_TRUE(dequantize_row(type, v.expected.data(), n, x.data()));
      const index group = type == GgmlType::Q6_K ? 16 : 32;
      for (index g = 0; g < n; g += group) {
        float largest = 0;
        for (index i = g; i < g + group; ++i) largest = std::max(largest, std::abs(v.input[i]));
        const double step = 2.0 * largest / codes * (kind == std::string("im") ? 1.5 : 1);
        for (index i = g; i < g + group; ++i) ASSERT_NEAR(x[i], v.input[i], step) << stem << kind << " element " << i;
      }
    }
}

TEST(quantization, reads_what_gguf_py_reads) {
  for (const GgmlVector& vector : gguf_py_vectors()) {
    std::vector<float> x(vector.numbers.size());
    ASSERT_TRUE(dequantize_row(vector.type, vector.bytes.data(), static_cast<index>(x.size()), x.data()));
    EXPECT_EQ(x, vector.numbers) << ggml_format(vector.type).name;
  }
}

// Each format by its equation, from bytes drawn at random and picked apart bit by bit.
TEST(quantization, blocks_follow_their_drawings) {
  std::mt19937 rng(1);
  Bytes bytes(256);
  for (char& byte : bytes) byte = static_cast<char>(rng());
  const auto u8 = [&](index i) { return static_cast<int>(static_cast<std::uint8_t>(bytes[i])); };
  const auto half = [&](index i) {
    f16 value;
    value.bits = static_cast<std::uint16_t>(u8(i) | u8(i + 1) << 8);
    return static_cast<float>(value);
  };
  const auto six_bits = [&](index first, index group, int part) {  // part 0: scale, 1: minimum
    const index place = first + 4 * part + group % 4;
    if (group < 4) return u8(place) & 63;
    return (u8(first + 8 + group % 4) >> (4 * part) & 15) | (u8(place) >> 6) << 4;
  };
  for (int round = 0; round < 50; ++round) {
    for (char& byte : bytes) byte = static_cast<char>(rng());
    bytes[1] = bytes[3] = bytes[209] = 0x2b;  // finite scales
    float x[256];
    ASSERT_TRUE(dequantize_row(GgmlType::Q8_0, bytes.data(), 32, x));
    for (index i = 0; i < 32; ++i) ASSERT_EQ(x[i], half(0) * static_cast<std::int8_t>(u8(2 + i)));
    ASSERT_TRUE(dequantize_row(GgmlType::Q4_0, bytes.data(), 32, x));
    for (index i = 0; i < 32; ++i) ASSERT_EQ(x[i], half(0) * ((u8(2 + i % 16) >> (i / 16 * 4) & 15) - 8));
    ASSERT_TRUE(dequantize_row(GgmlType::Q4_1, bytes.data(), 32, x));
    for (index i = 0; i < 32; ++i) ASSERT_EQ(x[i], half(0) * (u8(4 + i % 16) >> (i / 16 * 4) & 15) + half(2));
    ASSERT_TRUE(dequantize_row(GgmlType::Q4_K, bytes.data(), 256, x));
    for (index i = 0; i < 256; ++i) {
      const index group = i / 32;
      const int code = u8(16 + i / 64 * 32 + i % 32) >> (group % 2 * 4) & 15;
      const float scale = half(0) * static_cast<float>(six_bits(4, group, 0));
      const float min = half(2) * static_cast<float>(six_bits(4, group, 1));
      ASSERT_EQ(x[i], scale * static_cast<float>(code) - min) << i;
    }
    ASSERT_TRUE(dequantize_row(GgmlType::Q6_K, bytes.data(), 256, x));
    for (index i = 0; i < 256; ++i) {
      const index first = i / 128, quarter = i % 128 / 32, l = i % 32;
      const int low = u8(64 * first + l + (quarter & 1) * 32) >> (quarter / 2 * 4) & 15;
      const int high = u8(128 + 32 * first + l) >> (2 * quarter) & 3;
      const float scale = half(208) * static_cast<std::int8_t>(u8(192 + i / 16));
      ASSERT_EQ(x[i], scale * static_cast<float>(low + 16 * high - 32)) << i;
    }
  }
}

TEST(quantization, degenerate_blocks) {
  for (GgmlType type : {GgmlType::Q8_0, GgmlType::Q4_0, GgmlType::Q4_1})
    for (float value : {0.0f, 1e-30f, -3.0f, 60000.0f}) {
      const std::vector<float> x(64, value);
      Bytes bytes(static_cast<std::size_t>(ggml_row_bytes(type, 64)));
      std::vector<float> back(64, -1);
      ASSERT_TRUE(quantize_row(type, x.data(), 64, bytes.data()));
      ASSERT_TRUE(dequantize_row(type, bytes.data(), 64, back.data()));
      // A constant block is an extreme code times its scale: only the scale's f16 rounding remains.
      for (float y : back) ASSERT_NEAR(y, value, std::max(0x1p-11f * std::abs(value), 1e-29f)) << value;
    }
}

TEST(quantization, empty_and_misaligned_rows) {
  Bytes bytes(301, 0x11);
  for (GgmlType type : block_formats) {
    const index n = ggml_format(type).block;
    float aligned[256], shifted[256];
    ASSERT_TRUE(dequantize_row(type, nullptr, 0, nullptr));
    ASSERT_TRUE(dequantize_row(type, bytes.data(), n, aligned));
    ASSERT_TRUE(dequantize_row(type, bytes.data() + 1, n, shifted));
    EXPECT_TRUE(std::equal(aligned, aligned + n, shifted));
  }
}

TEST(quantization, plain_types) {
  const float values[] = {0, 1, -2.5f, 1024};
  for (GgmlType type : {GgmlType::F32, GgmlType::F16, GgmlType::BF16}) {
    char bytes[16];
    float back[4];
    ASSERT_TRUE(quantize_row(type, values, 4, bytes));
    ASSERT_TRUE(dequantize_row(type, bytes, 4, back));
    EXPECT_TRUE(std::equal(values, values + 4, back));
  }
  const std::int16_t words[] = {-32768, 0, 5, 32767};
  float back[4];
  ASSERT_TRUE(dequantize_row(GgmlType::I16, words, 4, back));
  EXPECT_TRUE(std::equal(words, words + 4, back));
}

}  // namespace
}  // namespace inlay::test
