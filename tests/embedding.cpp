#include <inlay/ops/embedding.hpp>

#include <sys/mman.h>

#include "cpu_kernels/support/elementwise.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/ggml_blocks.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<2> table, y;
  Tensor<1> ids, row_scale = {};
  GgmlType format = GgmlType::F32;
  float scale = 1;
  bool not_finite = false;  // the table holds what is NaN or infinite

  Embedding<Host> op() {
    return {.table = table, .row_scale = row_scale, .ids = ids, .y = y, .format = format, .scale = scale};
  }
  Case unrounded() const { return {table, y.widened(), ids, row_scale, format, scale, not_finite}; }
};

// An element is exact in f32 and so is dequantize_row's f32 number: the product with scale is the one rounding, and the
// double product rounded to f32 is the same number. Only what is rounded again, to 16 bits, may meet a tie that the
// first rounding made. An i8 code times its row's scale is one rounding more.
void compare(const Case& start) {
  const bool i8 = start.table.dtype() == DType::i8;
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_close(got.y, expected.y, i8 ? 2 : start.y.dtype() == DType::f32 ? 0 : 1, {.nan = start.not_finite});
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

// A table of elements whose rows lie otherwise than y's, and ids of both ends, the last one twice.
Case make(DType type, DType out, index vocab, index tokens, index dim, Layout layout, Rng& rng) {
  Case c{.table = {type, {vocab, dim}, {.row_gap = dim % 4, .misaligned = layout.misaligned}},
         .y = {out, {tokens, dim}, layout},
         .ids = {dim % 2 ? DType::i32 : DType::i64, {tokens}}};
  if (type == DType::i8) {
    c.table.integers(rng, -128, 127);
    c.row_scale = Tensor<1>(DType::f32, {vocab}).uniform(rng);
  } else {
    c.table.uniform(rng);
  }
  c.ids.integers(rng, 0, vocab - 1);
  for (index t = 0; t < tokens && t < 4; ++t)
    c.ids.set(t, static_cast<double>(t == 1 ? 0 : t == 2 ? vocab / 2 : vocab - 1));
  c.y.poison();
  return c;
}

const std::vector<DType> element_types = {DType::f32, DType::f16, DType::bf16, DType::i8};

TEST(embedding, sweep) {
  Rng rng(1);
  for (DType type : element_types)
    for (DType out : float_types)
      for (index dim : sizes)
        for (const Layout& layout : layouts) {
          Case c = make(type, out, 37, dim % 6, dim, layout, rng);
          c.scale = dim % 3 ? 1.0f : 8.3f;
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

// A scale of the row whose codes alone would be beyond f32, and one of the table that brings them back.
TEST(embedding, scales_that_meet_within_f32) {
  Rng rng(20);
  for (DType out : {DType::f32, DType::bf16})
    for (bool large : {false, true}) {
      Case c = make(DType::i8, out, 37, 5, 67, {}, rng);
      c.row_scale.uniform(rng, 0.5, 1);
      for (index i = 0; i < 37; ++i) c.row_scale.set(i, c.row_scale.get(i) * (large ? 0x1p127 : 0x1p-120));
      c.scale = large ? 0x1p-60f : 0x1p60f;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// How many rows a thread takes at least; three threads then have some, and the last takes less.
index rows_for_three_threads(index dim) { return 3 * (cpu::elementwise_grain / (dim + 1) + 1) - 2; }

TEST(embedding, many_rows_are_dealt_to_threads) {
  Rng rng(2);
  for (DType type : element_types)
    for (index dim : {1, 3, 40, 1023}) {
      Case c = make(type, DType::bf16, 1000, rows_for_three_threads(dim), dim, {}, rng);
      c.scale = 0.7f;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Places beyond 2^31 and 2^32 elements, in a table of which only the rows have memory.
TEST(embedding, rows_far_apart) {
  constexpr index vocab = 5, dim = 24, stride = 1'200'000'000;
  constexpr auto bytes = static_cast<std::size_t>((vocab - 1) * stride + dim);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  INLAY_NEEDS(memory != MAP_FAILED, "addresses", "5 GB of addresses cannot be had");
  auto* const table = static_cast<std::int8_t*>(memory);
  for (index id = 0; id < vocab; ++id)
    for (index i = 0; i < dim; ++i) table[id * stride + i] = static_cast<std::int8_t>(20 * id + i);
  const Tensor<1> ids = list_of(DType::i32, {4, 0, 2, 3});
  Tensor<1> row_scale(DType::f32, {vocab});
  row_scale.fill(1);
  const auto expect = [&](auto&& run) {
    Tensor<2> y(DType::f32, {4, dim});
    y.poison();
    ASSERT_TRUE(ok(run(Embedding<Host>{
        .table = {table, DType::i8, {vocab, dim}, {stride, 1}}, .row_scale = row_scale, .ids = ids, .y = y})));
    for (index k = 0; k < y.size(); ++k) ASSERT_EQ(y.get(k), 20 * ids.get(k / dim) + static_cast<double>(k % dim));
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_host_backend([&](const std::string&, auto run) { expect(run); });
  munmap(memory, bytes);
}

// Every byte at random, but for scales: signs of both kinds, and finite.
Case random_blocks(GgmlType format, DType out, index tokens, index blocks, Rng& rng) {
  const GgmlFormat of = ggml_format(format);
  const index dim = blocks * of.block, vocab = 9;
  Case c{.table = {DType::u8, {vocab, blocks * of.bytes}, {.row_gap = 3, .misaligned = 1}},
         .y = {out, {tokens, dim}, {.row_gap = 1, .misaligned = 0}},
         .ids = {DType::i32, {tokens}},
         .format = format};
  c.table.integers(rng, 0, 255);
  for (index block = 0; block < vocab * blocks; ++block)
    for (index at : exponents_in(format)) {
      const auto exponent = format == GgmlType::MXFP4 ? 100 + rng() % 40 : rng() % 0x40 | rng() % 2 << 7;
      c.table.set(block * of.bytes + at, static_cast<double>(exponent));
    }
  c.ids.integers(rng, 0, vocab - 1);
  c.ids.set(0, 0), c.ids.set(tokens - 1, static_cast<double>(vocab - 1));
  c.y.poison();
  return c;
}

// Rows at odd addresses: f32 output is dequantize_row's, bit for bit.
TEST(embedding, gguf_blocks) {
  Rng rng(3);
  for (GgmlType format : block_formats)
    for (index blocks : {1, 2, 3})
      for (DType out : float_types) {
        Case c = random_blocks(format, out, 5, blocks, rng);
        c.scale = blocks == 2 ? 1.0f : 0.3f;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(embedding, many_rows_of_blocks_are_dealt_to_threads) {
  Rng rng(4);
  for (GgmlType format : block_formats)
    ASSERT_NO_FATAL_FAILURE(
        compare(random_blocks(format, DType::f16, rows_for_three_threads(2 * ggml_format(format).block), 2, rng)));
}

// What reference and kernel share, dequantization of a block's scales above all, by numbers that the drawings in
// core/ggml_blocks.hpp give by hand.
TEST(embedding, blocks_by_hand) {
  const auto expect = [](GgmlType format, const std::vector<int>& bytes, index dim, auto&& answer) {
    Tensor<2> table(DType::u8, {2, static_cast<index>(bytes.size())});
    table.fill(0xa7);
    for (std::size_t b = 0; b < bytes.size(); ++b) table.set(table.extents()[1] + static_cast<index>(b), bytes[b]);
    const Tensor<1> ids = list_of(DType::i32, {1});
    const auto check_with = [&](auto&& run) {
      Tensor<2> y(DType::f32, {1, dim});
      y.poison();
      ASSERT_TRUE(ok(run(Embedding<Host>{.table = table, .ids = ids, .y = y, .format = format, .scale = 2})));
      for (index i = 0; i < dim; ++i) ASSERT_EQ(y.get(i), 2 * answer(i)) << i;
    };
    Reference reference;
    check_with([&](const auto& op) { return run(reference, op); });
    on_every_backend([&](const std::string&, auto run) { check_with(run); });
  };
  std::vector<int> bytes = {0x00, 0xc0};  // d = -2
  for (int i = 0; i < 32; ++i) bytes.push_back(8 * i);
  expect(GgmlType::Q8_0, bytes, 32, [](index i) { return -2.0 * static_cast<double>(i < 16 ? 8 * i : 8 * i - 256); });
  // 17 i: i in the low nibble and in the high one.
  bytes = {0x00, 0x38};  // d = 1/2
  for (int i = 0; i < 16; ++i) bytes.push_back(i | (15 - i) << 4);
  expect(GgmlType::Q4_0, bytes, 32, [](index i) { return 0.5 * static_cast<double>(i < 16 ? i - 8 : 31 - i - 8); });
  bytes.insert(bytes.begin() + 2, {0x00, 0xc4});  // m = -4
  expect(GgmlType::Q4_1, bytes, 32, [](index i) { return 0.5 * static_cast<double>(i < 16 ? i : 31 - i) - 4; });

  // Scales 1 10 19 28 37 46 55 63 and minima 62 53 44 35 26 17 8 0 of the eight groups.
  bytes = {0x00, 0x3c, 0x00, 0x34,   // d = 1, dmin = 1/4
           0x81, 0x8a, 0xd3, 0xdc,   // s0 .. s3; above them 37 = 2 * 16 + 5, 46 = 2 * 16 + 14, 3 * 16 + 7, 3 * 16 + 15
           0x7e, 0x75, 0x2c, 0x23,   // m0 .. m3; above them 26 = 1 * 16 + 10, 17 = 1 * 16 + 1, 8, 0
           0xa5, 0x1e, 0x87, 0x0f};  // m4 s4, m5 s5, m6 s6, m7 s7
  for (int i = 0; i < 128; ++i) bytes.push_back(i % 16 | (i / 32 + 3) << 4);
  const double scales[] = {1, 10, 19, 28, 37, 46, 55, 63}, minima[] = {62, 53, 44, 35, 26, 17, 8, 0};
  expect(GgmlType::Q4_K, bytes, 256, [&](index i) {
    const index group = i / 32;
    const auto code = static_cast<double>(group % 2 ? group / 2 + 3 : i % 16);
    return scales[group] * code - 0.25 * minima[group];
  });

  // Low nibbles i mod 16 and, above, 15 - i mod 16; the two high bits of the four quarters are 3 2 1 0, and in the
  // second half 0 1 2 3. Sixteen scales of both signs.
  bytes.clear();
  for (int i = 0; i < 128; ++i) bytes.push_back(i % 16 | (15 - i % 16) << 4);
  for (int i = 0; i < 64; ++i) bytes.push_back(i < 32 ? 0b00011011 : 0b11100100);
  for (int g = 0; g < 16; ++g) bytes.push_back(g % 2 ? 256 - 7 * g : 3 * g + 1);
  bytes.insert(bytes.end(), {0x00, 0xbc});  // d = -1
  expect(GgmlType::Q6_K, bytes, 256, [](index i) {
    const index half = i / 128, quarter = i / 32 % 4, g = i / 16;
    const index high = half == 0 ? 3 - quarter : quarter, low = quarter < 2 ? i % 16 : 15 - i % 16;
    return -static_cast<double>((g % 2 ? -7 * g : 3 * g + 1) * (16 * high + low - 32));
  });
}

// Each type's blocks are a row of their own, whose numbers are those of gguf-py. Subnormal scales stay what they are.
TEST(embedding, blocks_as_gguf_py_reads_them) {
  for (const GgmlVector& vector : gguf_py_vectors()) {
    SCOPED_TRACE(std::string(ggml_format(vector.type).name));
    const auto dim = static_cast<index>(vector.numbers.size());
    Tensor<2> table(DType::u8, {1, static_cast<index>(vector.bytes.size())}, {.row_gap = 0, .misaligned = 1});
    for (index b = 0; b < table.size(); ++b) table.set(b, vector.bytes[b]);
    const Tensor<1> ids = list_of(DType::i32, {0});
    const auto check_with = [&](auto&& run) {
      Tensor<2> y(DType::f32, {1, dim});
      y.poison();
      ASSERT_TRUE(ok(run(Embedding<Host>{.table = table, .ids = ids, .y = y, .format = vector.type})));
      for (index i = 0; i < dim; ++i) ASSERT_EQ(y.get(i), vector.numbers[i]) << i;
    };
    Reference reference;
    check_with([&](const auto& op) { return run(reference, op); });
    on_every_backend([&](const std::string&, auto run) { check_with(run); });
  }
}

TEST(embedding, blocks_of_scales_that_are_not_finite) {
  Rng rng(5);
  for (GgmlType format : block_formats)
    for (int high : {0x7c, 0x7e, 0xfc}) {
      Case c = random_blocks(format, DType::f32, 2, 1, rng);
      const index at = exponents_in(format)[0];
      if (format == GgmlType::MXFP4) continue;  // whose scales are all finite
      c.table.set(at - 1, 0), c.table.set(at, high);
      c.not_finite = true;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// To nearest even, also where f32 makes a tie; beyond the type to infinity; subnormals and zeros with their signs.
TEST(embedding, elements_are_rounded_once) {
  struct Row {
    DType out;
    std::vector<double> table, y;
  };
  const double tie = 1 + 0x1p-11, above = 1 + 0x1p-11 + 0x1p-23, odd = 1 + 3 * 0x1p-11;
  const double b_tie = 1 + 0x1p-8, b_above = 1 + 0x1p-8 + 0x1p-23, b_odd = 1 + 3 * 0x1p-8;
  const std::vector<Row> rows = {
      {DType::f16,
       {tie, above, odd, -above, 65519, 65520, -1e30, infinity, 0x1p-25, 0x1.8p-25, -0x1p-149, 0x1.004p-14},
       {1, 1 + 0x1p-10, 1 + 0x1p-9, -1 - 0x1p-10, 65504, infinity, -infinity, infinity, 0, 0x1p-24, -0.0, 0x1.004p-14}},
      {DType::bf16,
       {b_tie, b_above, b_odd, -b_above, 0x1.fep127, 0x1.fffffep127, -infinity, 0x1p-134, 0x1.8p-134, -0x1p-133},
       {1, 1 + 0x1p-7, 1 + 0x1p-6, -1 - 0x1p-7, 0x1.fep127, infinity, -infinity, 0, 0x1p-133, -0x1p-133}}};
  for (const Row& row : rows) {
    const auto dim = static_cast<index>(row.table.size());
    Tensor<2> table(DType::f32, {1, dim});
    for (index i = 0; i < dim; ++i) table.set(i, row.table[i]);
    const Tensor<1> ids = list_of(DType::i64, {0, 0});
    const auto check_with = [&](auto&& run) {
      Tensor<2> y(row.out, {2, dim});
      y.poison();
      ASSERT_TRUE(ok(run(Embedding<Host>{.table = table, .ids = ids, .y = y})));
      for (index k = 0; k < 2 * dim; ++k) {
        ASSERT_EQ(y.get(k), row.y[k % dim]) << row.table[k % dim];
        ASSERT_EQ(std::signbit(y.get(k)), std::signbit(row.y[k % dim])) << row.table[k % dim];
      }
    };
    Reference reference;
    check_with([&](const auto& op) { return run(reference, op); });
    on_every_backend([&](const std::string&, auto run) { check_with(run); });
  }
}

TEST(embedding, what_is_not_finite_stays) {
  Rng rng(6);
  for (DType type : float_types)
    for (DType out : float_types) {
      Case c = make(type, out, 3, 3, 19, {}, rng);
      for (index i = 0; i < 19; ++i) c.table.set(i, i % 3 == 0 ? infinity : i % 3 == 1 ? -infinity : std::nan(""));
      c.not_finite = true;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(embedding, refuses_ids_outside_the_table_before_anything_is_written) {
  Tensor<2> table(DType::f32, {7, 4}), y(DType::f32, {3, 4});
  table.fill(1);
  for (DType type : {DType::i32, DType::i64})
    for (index bad : {index{7}, index{-1}, index{8}, (index{1} << 32) + 1, -(index{1} << 32) + 1}) {
      if (type == DType::i32 && std::abs(bad) > 8) continue;  // its low half names a row
      for (index place : {0, 2}) {
        Tensor<1> ids(type, {3});
        ids.fill(2);
        ids.set(place, static_cast<double>(bad));
        y.fill(-5);
        const Embedding<Host> op{.table = table, .ids = ids, .y = y};
        expect_refused(op, {"ids[" + std::to_string(place) + "]", std::to_string(bad), "0..6"});
        on_every_backend([&](const std::string&, auto run) {
          EXPECT_FALSE(run(op).ok());
          for (index k = 0; k < y.size(); ++k) ASSERT_EQ(y.get(k), -5);
        });
      }
    }
}

TEST(embedding, refuses_what_the_contract_does_not_cover) {
  Tensor<2> table(DType::f32, {7, 4}), y(DType::f32, {3, 5}), bytes(DType::u8, {7, 34}), wide(DType::f32, {3, 33});
  Tensor<2> i8(DType::i8, {7, 5}), fits(DType::f32, {3, 4}), long_y(DType::f32, {3, 64}), blocks(DType::f32, {3, 32});
  Tensor<2> integers(DType::i32, {7, 4}), codes(DType::i8, {3, 4});
  Tensor<1> ids(DType::i32, {3}), two(DType::i32, {2}), floats(DType::f32, {3});
  Tensor<1> scales(DType::f32, {7}), six(DType::f32, {6}), half_scales(DType::f16, {7});
  ids.fill(0), two.fill(0);
  ASSERT_TRUE(ok(check(Embedding<Host>{.table = bytes, .ids = ids, .y = blocks, .format = GgmlType::Q8_0})));
  const Refused refused(Embedding<Host>{.table = table, .ids = ids, .y = fits});
  refused([&](auto& op) { op.y = y; }, {"table", "4", "5"});
  refused([&](auto& op) { op.table = integers; }, {"table", "i32"});
  refused([&](auto& op) { op.table = bytes, op.y = y; }, {"format", "block"});
  refused([&](auto& op) { op.table = bytes, op.y = wide, op.format = GgmlType::Q8_0; }, {"y", "33", "32"});
  refused([&](auto& op) { op.table = bytes, op.y = long_y, op.format = GgmlType::Q8_0; }, {"table", "34", "68"});
  refused([&](auto& op) { op.table = bytes, op.y = blocks, op.format = GgmlType::Q4_0; }, {"table", "34", "18"});
  refused([&](auto& op) { op.table = i8, op.y = y; }, {"row_scale", "i8"});
  refused([&](auto& op) { op.row_scale = scales; }, {"row_scale", "i8"});
  refused([&](auto& op) { op.table = i8, op.row_scale = six, op.y = y; }, {"row_scale", "6", "7"});
  refused([&](auto& op) { op.table = i8, op.row_scale = half_scales, op.y = y; }, {"row_scale", "f16"});
  refused([&](auto& op) { op.ids = two; }, {"ids", "2", "3"});
  refused([&](auto& op) { op.ids = floats; }, {"ids", "f32"});
  refused([&](auto& op) { op.y = codes; }, {"y", "i8"});
  refused([&](auto& op) { op.scale = std::nanf(""); }, {"scale", "nan"});
}

}  // namespace
}  // namespace inlay::test
