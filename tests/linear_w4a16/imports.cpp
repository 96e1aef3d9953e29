// Imports: the packed form means the very numbers that the format means.
#include <inlay/core/threads.hpp>

#include "tests/linear_w4a16/unpacked.hpp"
#include "tests/support/cases.hpp"

namespace inlay::test {
namespace {

// Codes, zero points and scales of GPTQ and AWQ, before they are put into words.
struct Plain {
  index n, k, group, bits;
  std::vector<std::uint32_t> codes, zeros;  // [n][k], [n][groups]
  Tensor<2> scales;                         // [groups, n] f16
  index groups() const { return w4_groups(k, group); }
};
Plain plain(index n, index k, index group, index bits, Rng& rng) {
  Plain p{n, k, group, bits, {}, {}, {DType::f16, {w4_groups(k, group), n}}};
  p.scales.uniform(rng, 0.01, 0.1);
  for (index i = 0; i < n * k; ++i) p.codes.push_back(static_cast<std::uint32_t>(rng() % (1u << bits)));
  for (index i = 0; i < n * p.groups(); ++i) p.zeros.push_back(static_cast<std::uint32_t>(rng() % (1u << bits)));
  return p;
}
void set_word(Tensor<2>& words, index i, index j, index shift, std::uint32_t code) {
  auto& word = words.data<std::uint32_t>()[i * words.extents()[1] + j];
  word |= code << shift;
}
void expect_weight(const PackedW4& weight, const Plain& p, const std::vector<index>& group_of) {
  const Matrix w = unpacked(weight);
  for (index n = 0; n < p.n; ++n)
    for (index i = 0; i < p.k; ++i) {
      const index g = group_of[static_cast<std::size_t>(i)];
      const double q = p.codes[static_cast<std::size_t>(n * p.k + i)];
      const double zero = p.zeros[static_cast<std::size_t>(n * p.groups() + g)];
      ASSERT_EQ(w(n, i), (q - zero) * p.scales.get(g * p.n + n)) << n << ' ' << i;  // exact: f16 scales
    }
}

// Words as a checkpoint holds them, and the numbers that they mean, worked out by hand.
TEST(linear_w4a16, imports_by_hand) {
  // GPTQ: eight inputs of one channel in a word, eight channels' zero points (less one) in another.
  Tensor<2> gptq(DType::i32, {1, 8}), zeros(DType::i32, {1, 1}), scales(DType::f16, {1, 8});
  gptq.fill(0);
  gptq.data<std::uint32_t>()[0] = 0xfedcba98u;
  gptq.data<std::uint32_t>()[1] = 0x00000001u;
  gptq.data<std::uint32_t>()[7] = 0xf0000000u;
  zeros.data<std::uint32_t>()[0] = 0x80000027u;  // channel 0: 7 + 1, channel 1: 2 + 1, 2 ..: 0 + 1, 7: 8 + 1
  scales.fill(0.5);
  scales.set(7, 2);
  const auto by_gptq = import_gptq({.qweight = gptq, .qzeros = zeros, .scales = scales});
  ASSERT_TRUE(by_gptq.has_value());
  Matrix w = unpacked(*by_gptq);
  for (index i = 0; i < 8; ++i) {
    EXPECT_EQ(w(0, i), static_cast<double>(8 + i - 8) / 2) << i;
    EXPECT_EQ(w(1, i), i == 0 ? -1 : -1.5) << i;
    EXPECT_EQ(w(2, i), -0.5) << i;
    EXPECT_EQ(w(7, i), i == 7 ? 12 : -18) << i;
  }
  // The packed words: the same order, sixteen channels side by side.
  const auto* packed = reinterpret_cast<const std::uint8_t*>(by_gptq->codes.data());
  const std::uint8_t words[] = {0x98, 0xba, 0xdc, 0xfe, 1, 0, 0, 0, 0};
  for (std::size_t i = 0; i < std::size(words); ++i) EXPECT_EQ(packed[i], words[i]) << i;
  EXPECT_EQ(packed[31], 0xf0);

  // AWQ: eight channels of one input in a word, in the order 0 2 4 6 1 3 5 7 from the lowest nibble on.
  Tensor<2> awq(DType::i32, {1, 1});
  awq.data<std::uint32_t>()[0] = 0x76543210u;
  zeros.data<std::uint32_t>()[0] = 0x10000005u;  // channel 0: 5, channel 7: 1
  const auto by_awq = import_awq({.qweight = awq, .qzeros = zeros, .scales = scales});
  ASSERT_TRUE(by_awq.has_value());
  w = unpacked(*by_awq);
  const double expected[] = {-2.5, 2, 0.5, 2.5, 1, 3, 1.5, 12};
  for (index c = 0; c < 8; ++c) EXPECT_EQ(w(c, 0), expected[c]) << c;

  // ONNX: bytes of one channel, the even input in the low nibble; zero points likewise, two blocks to a byte.
  Tensor<3> b(DType::u8, {1, 2, 4});
  Tensor<2> block_scales(DType::f32, {1, 2}), block_zeros(DType::u8, {1, 1});
  for (index i = 0; i < 8; ++i) b.set(i, static_cast<double>(0x10 + 0x22 * i));
  block_scales.set(0, 1), block_scales.set(1, 0.25);
  block_zeros.set(0, 0x3a);
  OnnxWeight onnx{.b = b, .scales = block_scales, .zero_points = block_zeros};
  onnx.k = 15, onnx.group = 8;
  const auto by_onnx = import_onnx(onnx);
  ASSERT_TRUE(by_onnx.has_value());
  w = unpacked(*by_onnx);
  const double inputs[] = {-10, -9, -8, -7, -6, -5, -4, -3, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75};
  for (index i = 0; i < 15; ++i) EXPECT_EQ(w(0, i), inputs[i]) << i;
}

// Zero points that are all in the middle are dropped. One of 0 borrows from the code above it in the word.
TEST(linear_w4a16, zero_points_at_their_ends) {
  Tensor<2> qweight(DType::i32, {2, 4}), qzeros(DType::i32, {1, 1}), scales(DType::f32, {1, 4});
  for (index i = 0; i < 8; ++i) qweight.data<std::uint32_t>()[i] = 0xff80017fu;
  scales.fill(0.5);
  GptqWeight from{.qweight = qweight, .qzeros = qzeros, .scales = scales};
  from.bits = 8;
  const auto import = [&](std::uint32_t stored) {
    qzeros.data<std::uint32_t>()[0] = stored;
    auto weight = import_gptq(from);
    EXPECT_TRUE(weight.has_value());
    return *weight;
  };
  const PackedW4 middle = import(0x7f7f7f7fu);
  EXPECT_EQ(middle.zeros.size(), 0u);
  EXPECT_EQ(unpacked(middle)(3, 0), -0.5);
  EXPECT_EQ(unpacked(middle)(3, 7), 63.5);
  const PackedW4 below = import(0x7f7f7f7eu);  // one below the middle
  EXPECT_EQ(unpacked(below)(0, 7), 64);
  EXPECT_EQ(unpacked(below)(1, 7), 63.5);
  const PackedW4 none = import(0xff00ff00u - 0x01010101u);  // 0, 255, 0, 255
  EXPECT_EQ(none.zero_type, DType::u8);
  for (const index c : {0, 2}) EXPECT_EQ(unpacked(none)(c, 7), 127.5);
  for (const index c : {1, 3}) EXPECT_EQ(unpacked(none)(c, 7), 0);
}

// True zero points 0 5 8 8 8 8 8 8 are stored as 0x7777773f.
TEST(linear_w4a16, zero_points_of_gptq_borrow) {
  Tensor<2> qweight(DType::i32, {1, 8}), qzeros(DType::i32, {1, 1}), scales(DType::f32, {1, 8});
  qweight.fill(0), scales.fill(1);
  qzeros.data<std::uint32_t>()[0] = 0x7777773fu;
  const auto weight = import_gptq({.qweight = qweight, .qzeros = qzeros, .scales = scales});
  ASSERT_TRUE(weight.has_value());
  const Matrix w = unpacked(*weight);
  const double zeros[] = {0, 5, 8, 8, 8, 8, 8, 8};
  for (index c = 0; c < 8; ++c) EXPECT_EQ(w(c, 0), -zeros[c]) << c;
}

TEST(linear_w4a16, imports_gptq) {
  Rng rng(20);
  for (index bits : {4, 8})
    for (bool v2 : {false, true})
      for (const char* order : {"none", "in order", "act-order", "uneven", "last empty"})
        for (index group : {0, 32, 64}) {
          SCOPED_TRACE(describe(bits, "v2", static_cast<int>(v2), std::string(order), group));
          const index k = 160, n = 24, per_word = 32 / bits;
          const Plain p = plain(n, k, group, bits, rng);
          Tensor<2> qweight(DType::i32, {k / per_word, n}), qzeros(DType::i32, {p.groups(), n / per_word});
          qweight.fill(0);
          qzeros.fill(0);
          for (index c = 0; c < n; ++c)
            for (index i = 0; i < k; ++i)
              set_word(qweight, i / per_word, c, i % per_word * bits, p.codes[static_cast<std::size_t>(c * k + i)]);
          for (index c = 0; c < n; ++c)
            for (index g = 0; g < p.groups(); ++g)
              set_word(qzeros, g, c / per_word, c % per_word * bits,
                       p.zeros[static_cast<std::size_t>(c * p.groups() + g)]);
          if (!v2)  // as writers do it: from the word, with borrow
            for (index i = 0; i < p.groups() * n / per_word; ++i)
              qzeros.data<std::uint32_t>()[i] -= bits == 4 ? 0x11111111u : 0x01010101u;
          std::vector<index> group_of(static_cast<std::size_t>(k));
          for (index i = 0; i < k; ++i) group_of[static_cast<std::size_t>(i)] = group == 0 ? 0 : i / group;
          if (order == std::string("act-order")) std::shuffle(group_of.begin(), group_of.end(), rng);
          if (order == std::string("uneven"))
            for (auto& g : group_of) g = static_cast<index>(rng()) & 1 ? 0 : p.groups() / 2;
          if (order == std::string("last empty") && p.groups() > 1)  // and those before it full
            for (index i = 0; i < k; ++i) group_of[static_cast<std::size_t>(i)] = i * (p.groups() - 1) / k;
          Tensor<1> g_idx(DType::i32, {k});
          for (index i = 0; i < k; ++i) g_idx.set(i, static_cast<double>(group_of[static_cast<std::size_t>(i)]));
          GptqWeight from{.qweight = qweight, .qzeros = qzeros, .scales = p.scales};
          if (order != std::string("none")) from.g_idx = g_idx;
          from.group = group;
          from.bits = bits;
          from.v2 = v2;
          const auto weight = import_gptq(from, inlay::threads(2));
          ASSERT_TRUE(weight.has_value()) << weight.error().message();
          if (order == std::string("in order")) {
            EXPECT_TRUE(weight->perm.empty());
          }
          ASSERT_NO_FATAL_FAILURE(expect_weight(*weight, p, group_of));
          ASSERT_NO_FATAL_FAILURE(expect_product(*weight, rng));
        }
}

TEST(linear_w4a16, imports_awq) {
  Rng rng(21);
  for (index group : {0, 32}) {
    const index k = 72, n = 40;
    const Plain p = plain(n, k, group, 4, rng);
    Tensor<2> qweight(DType::i32, {k, n / 8}), qzeros(DType::i32, {p.groups(), n / 8});
    qweight.fill(0);
    qzeros.fill(0);
    const index order[] = {0, 2, 4, 6, 1, 3, 5, 7};  // the channel in each nibble
    for (index block = 0; block < n / 8; ++block)
      for (index nibble = 0; nibble < 8; ++nibble) {
        const index c = 8 * block + order[nibble];
        for (index i = 0; i < k; ++i)
          set_word(qweight, i, block, 4 * nibble, p.codes[static_cast<std::size_t>(c * k + i)]);
        for (index g = 0; g < p.groups(); ++g)
          set_word(qzeros, g, block, 4 * nibble, p.zeros[static_cast<std::size_t>(c * p.groups() + g)]);
      }
    AwqWeight from{.qweight = qweight, .qzeros = qzeros, .scales = p.scales};
    from.group = group;
    const auto weight = import_awq(from);
    ASSERT_TRUE(weight.has_value()) << weight.error().message();
    std::vector<index> group_of(static_cast<std::size_t>(k));
    for (index i = 0; i < k; ++i) group_of[static_cast<std::size_t>(i)] = group == 0 ? 0 : i / group;
    ASSERT_NO_FATAL_FAILURE(expect_weight(*weight, p, group_of));
    ASSERT_NO_FATAL_FAILURE(expect_product(*weight, rng));
  }
}

TEST(linear_w4a16, imports_onnx) {
  Rng rng(23);
  for (index bits : {4, 8})
    for (const char* zero_points : {"none", "u8", "f32"})
      for (index k : {64, 75}) {
        SCOPED_TRACE(describe(bits, std::string(zero_points), k));
        const index n = 18, group = 32, blocks = (k + group - 1) / group;
        Tensor<3> b(DType::u8, {n, blocks, group * bits / 8});
        Tensor<2> scales(DType::f32, {n, blocks}), packed(DType::u8, {n, (blocks * bits + 7) / 8});
        Tensor<2> floating(DType::f32, {n, blocks});
        b.integers(rng, 0, 255);
        scales.uniform(rng, 0.01, 0.1);
        packed.integers(rng, 0, 255);
        floating.uniform(rng, 0, 15);
        OnnxWeight from{.b = b, .scales = scales};
        from.k = k;
        from.group = group;
        from.bits = bits;
        if (zero_points == std::string("u8")) from.zero_points = packed;
        if (zero_points == std::string("f32")) from.zero_points = floating;
        const auto weight = import_onnx(from);
        ASSERT_TRUE(weight.has_value()) << weight.error().message();
        const Matrix w = unpacked(*weight);
        const auto nibble = [&](double byte, index i) {
          return static_cast<double>(bits == 8 ? static_cast<int>(byte) : static_cast<int>(byte) >> (i % 2 * 4) & 15);
        };
        for (index c = 0; c < n; ++c)
          for (index i = 0; i < k; ++i) {
            const index g = i / group, in_block = i % group;
            const double q = nibble(b.get((c * blocks + g) * (group * bits / 8) + in_block * bits / 8), in_block);
            double zero = 1 << (bits - 1);
            if (zero_points == std::string("u8")) zero = nibble(packed.get(c * packed.extents()[1] + g * bits / 8), g);
            if (zero_points == std::string("f32")) zero = floating.get(c * blocks + g);
            const double scale = scales.get(c * blocks + g);
            // zero * scale is rounded once, w once more.
            ASSERT_NEAR(w(c, i), (q - zero) * scale, epsilon(DType::f32) * (zero + std::abs(q - zero)) * scale);
          }
        ASSERT_NO_FATAL_FAILURE(expect_product(*weight, rng));
      }
}

// 4 bits of 2^62 + 64 inputs are 32 bytes for who multiplies first, and k inputs of such a group are beyond them.
TEST(linear_w4a16, a_group_of_onnx_whose_bits_overflow_is_refused) {
  Tensor<3> b(DType::u8, {1, 1, 32});
  Tensor<2> scales(DType::f32, {1, 1});
  OnnxWeight from{.b = b, .scales = scales};
  from.k = 4096, from.group = (index{1} << 62) + 64;
  const auto weight = import_onnx(from);
  ASSERT_FALSE(weight.has_value());
  EXPECT_NE(weight.error().message().find("b has shape"), std::string_view::npos) << weight.error().message();
}

TEST(linear_w4a16, no_inputs_of_onnx_are_refused) {
  Tensor<3> b(DType::u8, {1, 1, 16});
  Tensor<2> scales(DType::f32, {1, 1});
  for (const index k : {0, -3}) {
    OnnxWeight from{.b = b, .scales = scales};
    from.k = k;
    const auto weight = import_onnx(from);
    ASSERT_FALSE(weight.has_value());
    EXPECT_EQ(weight.error().message(), "k is " + std::to_string(k) + "; it must be at least 1");
  }
}

TEST(linear_w4a16, imports_refuse_what_they_do_not_know) {
  Tensor<2> qweight(DType::i32, {16, 24}), qzeros(DType::i32, {4, 3}), scales(DType::f16, {4, 24});
  Tensor<1> g_idx(DType::i32, {128});
  g_idx.fill(4);
  GptqWeight from{.qweight = qweight, .qzeros = qzeros, .scales = scales};
  from.group = 32;
  EXPECT_TRUE(import_gptq(from).has_value());
  const auto refused = [&](const char* word) {
    const auto weight = import_gptq(from);
    ASSERT_FALSE(weight.has_value());
    EXPECT_NE(weight.error().message().find(word), std::string_view::npos) << weight.error().message();
  };
  from.g_idx = g_idx;
  refused("g_idx");
  from.g_idx = {};
  from.group = 12;
  refused("group");
  from.group = 64;
  refused("qzeros");
  from.group = 32;
  from.bits = 3;
  refused("bits");
}

}  // namespace
}  // namespace inlay::test
