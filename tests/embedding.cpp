#include <inlay/ops/embedding.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

// At most three products and a difference of f32 numbers: 4 roundings.
constexpr double ulps = 4;

template <class Op> void compare(const Op& op, const Tensor<2>& y) {
  Tensor<2> expected = y;
  SCOPED_TRACE(describe(op(expected)));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, op(expected))));
  on_every_backend([&](const std::string&, auto run) {
    Tensor<2> got = y;
    ASSERT_TRUE(ok(run(op(got))));
    expect_close(got, expected, ulps);
    EXPECT_TRUE(got.gaps_untouched());
  });
}

TEST(embedding, sweep) {
  Rng rng(1);
  const index vocab = 37;
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (DType out : float_types)
      for (index dim : sizes)
        for (const Layout& layout : layouts) {
          const index tokens = dim % 6;
          Tensor<2> table(type, {vocab, dim}, layout), y(out, {tokens, dim}, layout);
          Tensor<1> row_scale(DType::f32, {vocab}), ids(dim % 2 ? DType::i32 : DType::i64, {tokens});
          if (type == DType::i8)
            table.integers(rng, -128, 127);
          else
            table.uniform(rng);
          row_scale.uniform(rng);
          ids.integers(rng, 0, vocab - 1);
          y.poison();
          ASSERT_NO_FATAL_FAILURE(compare(
              [&](Tensor<2>& target) {
                Embedding<Host> op{.table = table, .ids = ids, .y = target, .scale = dim % 3 ? 1.0f : 8.0f};
                if (type == DType::i8) op.row_scale = row_scale;
                return op;
              },
              y));
        }
}

// Rows of random blocks, at odd addresses: f32 output is dequantize_row's, bit for bit.
TEST(embedding, gguf_blocks) {
  Rng rng(2);
  for (GgmlType format : {GgmlType::Q8_0, GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q4_K, GgmlType::Q6_K})
    for (index blocks : {1, 2, 3}) {
      const index dim = blocks * ggml_format(format).block, bytes = ggml_row_bytes(format, dim), vocab = 9;
      SCOPED_TRACE(describe(std::string(ggml_format(format).name), dim));
      Tensor<2> table(DType::u8, {vocab, bytes}, {.row_gap = 3, .misaligned = 1});
      // A byte below 0x3c in the upper half of an f16 keeps it finite wherever scales lie.
      table.integers(rng, 0, 0x3b);
      for (index k = 0; k < table.size(); k += 3) table.set(k, static_cast<double>(rng() % 0x78));
      Tensor<1> ids(DType::i32, {5});
      ids.integers(rng, 0, vocab - 1);
      for (DType out : float_types) {
        Tensor<2> y(out, {5, dim});
        ASSERT_NO_FATAL_FAILURE(compare(
            [&](Tensor<2>& target) {
              return Embedding<Host>{.table = table, .ids = ids, .y = target, .format = format, .scale = 0.5f};
            },
            y));
      }
      on_every_backend([&](const std::string&, auto run) {
        Tensor<2> y(DType::f32, {5, dim});
        ASSERT_TRUE(ok(run(Embedding<Host>{.table = table, .ids = ids, .y = y, .format = format})));
        std::vector<float> row(static_cast<std::size_t>(dim));
        for (index t = 0; t < 5; ++t) {
          const auto* packed = table.data<std::uint8_t>() + static_cast<index>(ids.get(t)) * (bytes + 3);
          ASSERT_TRUE(dequantize_row(format, packed, dim, row.data()));
          for (index i = 0; i < dim; ++i) ASSERT_EQ(y.get(t * dim + i), row[i]) << t << ' ' << i;
        }
      });
    }
}

TEST(embedding, refuses_ids_outside_the_table_before_anything_is_written) {
  Tensor<2> table(DType::f32, {7, 4}), y(DType::f32, {3, 4});
  table.fill(1);
  for (DType type : {DType::i32, DType::i64})
    for (index bad : {7, -1}) {
      Tensor<1> ids(type, {3});
      ids.fill(2);
      ids.set(2, static_cast<double>(bad));
      y.fill(-5);
      const Embedding<Host> op{.table = table, .ids = ids, .y = y};
      expect_refused(op, {"ids[2]", std::to_string(bad), "0..6"});
      on_every_backend([&](const std::string&, auto run) {
        EXPECT_FALSE(run(op).ok());
        for (index k = 0; k < y.size(); ++k) ASSERT_EQ(y.get(k), -5);
      });
    }
}

TEST(embedding, refuses_what_the_contract_does_not_cover) {
  Tensor<2> table(DType::f32, {7, 4}), y(DType::f32, {3, 5}), bytes(DType::u8, {7, 34}), wide(DType::f32, {3, 33});
  Tensor<2> i8(DType::i8, {7, 5});
  Tensor<1> ids(DType::i32, {3});
  ids.fill(0);
  expect_refused(Embedding<Host>{.table = table, .ids = ids, .y = y}, {"table", "4", "5"});
  expect_refused(Embedding<Host>{.table = bytes, .ids = ids, .y = y}, {"format", "block"});
  expect_refused(Embedding<Host>{.table = bytes, .ids = ids, .y = wide, .format = GgmlType::Q8_0}, {"y", "33", "32"});
  expect_refused(Embedding<Host>{.table = i8, .ids = ids, .y = y}, {"row_scale", "i8"});
}

}  // namespace
}  // namespace inlay::test
