// Blocks of GGUF files: the packed form means the very numbers that the format means.
#include <inlay/core/threads.hpp>

#include "tests/linear_w4a16/unpacked.hpp"
#include "tests/support/ggml_blocks.hpp"

namespace inlay::test {
namespace {

// One block of a type, all bytes zero but for those given; d is 1/2, a second f16 (dmin or m) is 1.
class Block {
 public:
  explicit Block(GgmlType type) : type_(type), bytes_(static_cast<std::size_t>(ggml_format(type).bytes)) {
    const bool second = type == GgmlType::Q4_1 || type == GgmlType::Q4_K;
    set(type == GgmlType::Q6_K ? 209 : 1, 0x38);
    if (second) set(3, 0x3c);
  }
  Block& set(index at, int byte) {
    bytes_[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(byte);
    return *this;
  }
  // Element by element.
  void means(std::initializer_list<std::pair<index, double>> numbers) const {
    SCOPED_TRACE(std::string(ggml_format(type_).name));
    const auto weight = import_gguf(type_, bytes_.data(), 1, ggml_format(type_).block);
    ASSERT_TRUE(weight.has_value());
    std::vector<float> dequantized(static_cast<std::size_t>(weight->k));
    ASSERT_TRUE(dequantize_row(type_, bytes_.data(), weight->k, dequantized.data()));
    const Matrix w = unpacked(*weight);
    for (const auto& [i, number] : numbers) {
      EXPECT_EQ(w(0, i), number) << i;
      EXPECT_EQ(dequantized[static_cast<std::size_t>(i)], number) << i;
    }
  }

 private:
  GgmlType type_;
  std::vector<std::uint8_t> bytes_;
};

// Worked out by hand from the drawings in core/ggml_blocks.hpp.
TEST(linear_w4a16, gguf_blocks_by_hand) {
  Block(GgmlType::Q4_0).set(2, 0x2f).set(17, 0xe9).means({{0, 3.5}, {16, -3}, {15, 0.5}, {31, 3}, {1, -4}});
  Block(GgmlType::Q4_1).set(4, 0x2f).set(19, 0xe9).means({{0, 8.5}, {16, 2}, {15, 5.5}, {31, 8}, {1, 1}});
  Block(GgmlType::Q8_0).set(2, 0x7f).set(33, 0x80).means({{0, 63.5}, {31, -64}, {1, 0}});
  // Scales in units of 1/2: s0 = 3, s4 = 5 | 2 << 4 = 37, s7 = 1 | 3 << 4 = 49; minima: m0 = 2, m4 = 7 | 1 << 4 = 23.
  Block(GgmlType::Q4_K)
      .set(4, 0x83)         // s4[5:4] = 2, s0 = 3
      .set(7, 0xc4)         // s7[5:4] = 3, s3 = 4
      .set(8, 0x42)         // m4[5:4] = 1, m0 = 2
      .set(11, 0x06)        // m3 = 6
      .set(12, 0x75)        // m4[3:0] = 7, s4[3:0] = 5
      .set(15, 0x91)        // m7[3:0] = 9, s7[3:0] = 1
      .set(16, 0xa1)        // elements 0 and 32
      .set(16 + 32, 0xb0)   // elements 64 and 96
      .set(16 + 64, 0x0c)   // elements 128 and 160
      .set(16 + 127, 0xf0)  // elements 223 and 255
      .means({{0, -0.5},
              {1, -2},
              {32, 0},
              {96, 4 * 11 / 2.0 - 6},
              {128, 37 * 12 / 2.0 - 23},
              {129, -23},
              {160, 0},
              {224, -9},
              {255, 49 * 15 / 2.0 - 9}});
  // Codes less 32, by groups of 16 of scales 2, 3, 5, -7 and, in the second half, 11.
  Block(GgmlType::Q6_K)
      .set(0, 0x3a)         // low bits of elements 0 and 64
      .set(32, 0x50)        // of elements 32 and 96
      .set(64 + 31, 0x0f)   // of elements 128 + 31 and 128 + 95
      .set(128, 0xd8)       // high bits of elements 0 (0), 32 (2), 64 (1), 96 (3)
      .set(128 + 63, 0x03)  // of element 128 + 31 (3)
      .set(192, 2)
      .set(192 + 2, 3)
      .set(192 + 4, 5)
      .set(192 + 6, 0xf9)
      .set(192 + 9, 11)
      .means({{0, -22},
              {1, -32},
              {32, 0},
              {64, -13 * 2.5},
              {96, 21 * -3.5},
              {97, 112},
              {159, 31 * 5.5},
              {158, -176},
              {128, 0}});
}

TEST(linear_w4a16, gguf_blocks_as_gguf_py_reads_them) {
  for (const GgmlVector& vector : gguf_py_vectors()) {
    SCOPED_TRACE(std::string(ggml_format(vector.type).name));
    const auto k = static_cast<index>(vector.numbers.size());
    const auto weight = import_gguf(vector.type, vector.bytes.data(), 1, k);
    ASSERT_TRUE(weight.has_value()) << weight.error().message();
    std::vector<float> row(vector.numbers.size());
    weight->unpack(0, row.data());
    for (index i = 0; i < k; ++i) ASSERT_EQ(row[i], vector.numbers[i]) << i;
  }
}

// What decode reads of each format: bits of codes, elements of a group, type of scales.
TEST(linear_w4a16, gguf_forms) {
  struct Form {
    GgmlType type;
    index bits, group;
    DType scales;
    bool offsets;
  };
  for (const Form& form : {Form{GgmlType::Q5_0, 5, 32, DType::f16, false},
                           {GgmlType::Q5_1, 5, 32, DType::f16, true},
                           {GgmlType::Q2_K, 4, 16, DType::i8, true},
                           {GgmlType::Q3_K, 4, 16, DType::i8, false},
                           {GgmlType::Q5_K, 5, 32, DType::i8, true},
                           {GgmlType::Q6_K, 6, 16, DType::i8, false},
                           {GgmlType::IQ4_NL, 4, 32, DType::f16, false},
                           {GgmlType::IQ4_XS, 4, 32, DType::i8, false},
                           {GgmlType::MXFP4, 4, 32, DType::bf16, false}}) {
    SCOPED_TRACE(std::string(ggml_format(form.type).name));
    const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(ggml_format(form.type).bytes));
    const auto weight = import_gguf(form.type, bytes.data(), 1, ggml_format(form.type).block);
    ASSERT_TRUE(weight.has_value());
    EXPECT_EQ(weight->bits, form.bits);
    EXPECT_EQ(weight->group, form.group);
    EXPECT_EQ(weight->scale_type, form.scales);
    EXPECT_EQ(weight->offsets.size() != 0, form.offsets);
    EXPECT_EQ(weight->super_scales.size() != 0, form.scales == DType::i8);
    EXPECT_EQ(weight->super_offsets.size() != 0, form.scales == DType::i8 && form.offsets);
    EXPECT_EQ(weight->zeros.size(), 0u);
  }
}

// Equal to the format's own dequantization, bit for bit; with f16 scales to their rounding.
TEST(linear_w4a16, imports_gguf) {
  Rng rng(22);
  for (GgmlType type : block_formats) {
    SCOPED_TRACE(std::string(ggml_format(type).name));
    const index n = 19, k = 512, row = ggml_row_bytes(type, k), block = ggml_format(type).bytes;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n * row));
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng());
    for (index at = 0; at < n * row; at += block)
      for (index exponent : exponents_in(type)) bytes[static_cast<std::size_t>(at + exponent)] = small_exponent(type);
    Matrix expected(n, k);
    std::vector<float> x(static_cast<std::size_t>(k));
    for (index c = 0; c < n; ++c) {
      ASSERT_TRUE(dequantize_row(type, bytes.data() + c * row, k, x.data()));
      for (index i = 0; i < k; ++i) expected(c, i) = x[static_cast<std::size_t>(i)];
    }
    const auto weight = import_gguf(type, bytes.data(), n, k, {}, inlay::threads(2));
    ASSERT_TRUE(weight.has_value()) << weight.error().message();
    EXPECT_TRUE(unpacked(*weight) == expected);
    ASSERT_NO_FATAL_FAILURE(expect_product(*weight, rng));
    if (const auto wide = import_gguf(type, bytes.data(), n, k, DType::f32)) {
      EXPECT_EQ(wide->super_scales.size(), 0u);
      EXPECT_TRUE(unpacked(*wide) == expected);
    } else {
      ADD_FAILURE() << wide.error().message();
    }
    const auto narrow = import_gguf(type, bytes.data(), n, k, DType::f16);
    ASSERT_TRUE(narrow.has_value());
    // Scale and offset are each off by 2^-11 of codes up to 255 and scales below 0.07 * 128.
    const double largest = expected.cwiseAbs().maxCoeff() * 2 + 64;
    EXPECT_LE((unpacked(*narrow) - expected).cwiseAbs().maxCoeff(), 0x1p-11 * 2 * largest);
  }
  EXPECT_FALSE(import_gguf(GgmlType::Q4_K, nullptr, 1, 255).has_value());
}

// d = 2047 * 2^5 = 65504, f16's largest, times 1 is held, times 2 is not; nor is a minimum.
TEST(linear_w4a16, f16_holds_scales_or_they_are_refused) {
  std::vector<std::uint8_t> two(2 * 144);  // rows
  const auto set = [&](index at, int byte) {
    two[static_cast<std::size_t>(144 + at)] = static_cast<std::uint8_t>(byte);
  };
  set(0, 0xff), set(1, 0x7b), set(2, 0xff), set(3, 0x7b);
  set(4, 1), set(8, 1);
  EXPECT_TRUE(import_gguf(GgmlType::Q4_K, two.data(), 2, 256, DType::f16).has_value());
  for (const index at : {4, 8}) {
    set(at, 2);
    EXPECT_TRUE(import_gguf(GgmlType::Q4_K, two.data(), 2, 256).has_value());
    const auto beyond = import_gguf(GgmlType::Q4_K, two.data(), 2, 256, DType::f16);
    ASSERT_FALSE(beyond.has_value());
    EXPECT_EQ(beyond.error().message(), "scales are f16, which does not hold one of row 1; it must be f32");
    set(at, 1);
  }
  set(0, 0), set(1, 0x7c);  // what is infinite in the file stays so
  EXPECT_TRUE(import_gguf(GgmlType::Q4_K, two.data(), 2, 256, DType::f16).has_value());
}

TEST(linear_w4a16, gguf_of_other_sizes_and_types_is_refused) {
  EXPECT_FALSE(import_gguf(GgmlType::Q4_K, nullptr, 1, 255).has_value());
  EXPECT_FALSE(import_gguf(GgmlType::F16, nullptr, 1, 256).has_value());
}

}  // namespace
}  // namespace inlay::test
