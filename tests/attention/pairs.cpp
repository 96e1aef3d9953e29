// What holds for the operators that bias and mask each pair of a query and a key.
#include "tests/attention/contract.hpp"

namespace inlay::test {
namespace {

// Key 3 is masked for all rows, key 100 for the odd ones only: its V reaches the others.
TEST_P(AttentionPairs, masked_values_never_reach_the_output) {
  Rng rng(6);
  const index queries = up_to(70);
  for (double bad : {nan, infinity, -infinity}) {
    SCOPED_TRACE(bad);
    AttentionCase clean =
        problem({.queries = queries, .keys = 130, .kv_heads = 1, .group = 2, .dim = 12, .v_dim = 20}, rng);
    clean.mask = Tensor<4>(DType::boolean, {1, 1, queries, 130}).fill(0);
    for (index i = 0; i < queries; ++i)
      clean.mask.set(i * 130 + 3, 1), clean.mask.set(i * 130 + 100, static_cast<double>(i % 2));
    clean.kv_lens = list_of(DType::i32, {120});
    const auto judge = contract().judge(clean);
    AttentionCase poisoned = clean;
    for (index j : {index{3}, index{100}, index{120}, index{129}})
      for (index d = 0; d < 20; ++d) {
        if (d < 12 && j != 100) poisoned.k.set(0, j, 0, d, bad);
        poisoned.v.set(0, j, 0, d, bad);
      }
    on_every_backend(poisoned, [&](AttentionCase& got) {
      for (index i = 0; i < queries; i += 2)
        for (index h = 0; h < 2; ++h)
          for (index d = 0; d < 20; ++d) {
            ASSERT_FALSE(std::isfinite(got.out.get(0, i, h, d))) << i << " " << h << " " << d;
            got.out.set(0, i, h, d, judge->right().out.get(0, i, h, d));
          }
      judge->compare(got);
    });
  }
}

// Masked for every row: around tiles and splits, and behind the last key.
TEST_P(AttentionPairs, masked_keys_around_the_splits_never_reach_the_output) {
  Rng rng(6);
  const index split = contract().split, slots = 2 * split + 40, length = slots - 10;
  for (DType kv : {DType::f32, DType::f16}) {
    AttentionCase clean =
        problem({.keys = slots, .kv_heads = 1, .group = 3, .dim = 10, .v_dim = 12}, rng, DType::f32, kv);
    clean.kv_lens = list_of(DType::i32, {length});
    clean.mask = Tensor<4>(DType::boolean, {1, 1, 1, slots}).fill(0);
    const std::vector<index> masked{0, 77, split - 1, split, 2 * split, length - 1};
    for (index j : masked) clean.mask.set(j, 1);
    const auto judge = contract().judge(clean);
    for (double bad : {nan, infinity, -infinity}) {
      AttentionCase poisoned = clean;
      const auto spoil = [&](index j) {
        for (index d = 0; d < 12; ++d) {
          if (d < 10) poisoned.k.set(0, j, 0, d, bad);
          poisoned.v.set(0, j, 0, d, bad);
        }
      };
      for (index j : masked) spoil(j);
      for (index j = length; j < slots; ++j) spoil(j);
      on_every_backend(poisoned, [&](const AttentionCase& got) { judge->compare(got); });
    }
  }
}

// A key that one query alone sees, by every way of not seeing it; of its V the last dim is not finite. Few rows read
// V where it lies, many a copy.
TEST_P(AttentionPairs, values_that_one_query_sees_reach_no_other) {
  constexpr index keys = 2 * cpu::key_tile + 3, dim = 20;
  for (index queries : {index{3}, cpu::shared_unit_rows + 5}) {
    if (queries > contract().max_queries) continue;
    for (std::string way : {"causal", "left", "bias", "mask", "scale"})
      for (int form = 0; form < contract().forms; ++form) {
        SCOPED_TRACE(describe(way, queries, "form", form));
        Rng rng(17);
        const bool quantized = way == "scale", first = way == "left";
        AttentionCase clean = problem({.queries = queries, .keys = keys, .dim = 6, .v_dim = dim}, rng, DType::f32,
                                      quantized ? DType::i8 : DType::f16);
        clean.form = form;
        // The last query sees the last key alone, or the first one the first.
        const index key = first ? 0 : keys - 1, query = first ? 0 : queries - 1;
        clean.causal = way == "causal" || quantized;
        if (first) clean.left = keys - queries;
        if (way == "bias") clean.bias = Tensor<4>(DType::f32, {1, 1, queries, keys}).uniform(rng);
        if (way == "mask") clean.mask = Tensor<4>(DType::boolean, {1, 1, queries, keys}).fill(0);
        if (quantized) clean.v_scale = Tensor<4>(DType::f32, {1, keys, 1, 1}).fill(0.01);
        for (index i = 0; i < queries; ++i) {
          if (i != query && way == "bias") clean.bias.set(i * keys + key, -infinity);
          if (i != query && way == "mask") clean.mask.set(i * keys + key, 1);
        }
        const auto judge = contract().judge(clean);
        for (double bad : {nan, infinity}) {
          SCOPED_TRACE(bad);
          AttentionCase spoiled = clean;
          if (quantized)
            spoiled.v_scale.set(key, bad);
          else
            spoiled.v.set(0, key, 0, dim - 1, bad);
          on_every_backend(spoiled, [&](AttentionCase& got) {
            for (index d = quantized ? 0 : dim - 1; d < dim; ++d) {
              ASSERT_FALSE(std::isfinite(got.out.get(0, query, 0, d)));
              got.out.set(0, query, 0, d, judge->right().out.get(0, query, 0, d));
            }
            judge->compare(got);
          });
        }
      }
  }
}

TEST_P(AttentionPairs, a_visible_nan_or_infinite_key_spoils_its_rows_only) {
  Rng rng(7);
  const index rows = up_to(9);
  for (double bad : {nan, infinity}) {
    AttentionCase c = problem({.queries = rows, .keys = rows, .kv_heads = 1, .group = 1, .dim = 8, .v_dim = 8}, rng);
    for (index i = 0; i < rows; ++i) c.q.set(0, i, 0, 0, 1);
    const index key = rows / 2 + 1;
    c.k.set(0, key, 0, 0, bad);
    c.causal = true;
    on_every_backend(c, [&](const AttentionCase& got) {
      for (index i = 0; i < rows; ++i) {
        ASSERT_EQ(std::isnan(got.out.get(0, i, 0, 3)), i >= key) << i;
        ASSERT_EQ(std::isnan(got.lse.get(i)), i >= key) << i;
      }
    });
  }
}

// Rows that stand before the first key: 0 and -inf, or their sink.
TEST_P(AttentionPairs, rows_that_see_nothing) {
  Rng rng(15);
  const index rows = up_to(10), keys = rows * 4 / 10, blind = rows - keys;
  AttentionCase plain = problem({.queries = rows, .keys = keys, .kv_heads = 1, .group = 2, .dim = 8, .v_dim = 8}, rng);
  plain.causal = true;
  AttentionCase sinks = plain;
  sinks.sinks = Tensor<1>(DType::f32, {2});
  sinks.sinks.set(0, 1.5), sinks.sinks.set(1, -infinity);
  if (keys >= 4) {  // with fewer, rows are values of V as they are: nothing is rounded that a bound could be held to
    ASSERT_NO_FATAL_FAILURE(compare(plain));
    ASSERT_NO_FATAL_FAILURE(compare(sinks));
  }
  contract().on_every_backend({plain, sinks}, [&](const Contract::Problems& got) {
    for (index i = 0; i < rows; ++i) {
      for (index h = 0; h < 2; ++h)
        for (index d = 0; d < 8 && i < blind; ++d)
          for (const AttentionCase& one : got) ASSERT_EQ(one.out.get(0, i, h, d), 0);
      ASSERT_EQ(got[0].lse.get(2 * i) == -infinity, i < blind);
      ASSERT_EQ(got[1].lse.get(2 * i) == 1.5, i < blind);
      ASSERT_EQ(got[1].lse.get(2 * i + 1) == -infinity, i < blind);
      ASSERT_FALSE(std::isnan(got[0].lse.get(2 * i)));
    }
  });
}

TEST_P(AttentionPairs, v_inside_k) {
  Rng rng(10);
  AttentionCase apart = problem({.queries = up_to(5), .keys = 70, .kv_heads = 1, .group = 16, .dim = 72, .v_dim = 64},
                                rng, DType::f32, DType::f16);
  for (index j = 0; j < 70; ++j)
    for (index d = 0; d < 64; ++d) apart.v.set(0, j, 0, d, apart.k.get(0, j, 0, d));
  AttentionCase inside = apart;
  inside.v_inside_k = true;
  contract().on_every_backend(
      {apart, inside}, [&](const Contract::Problems& got) { expect_equal(got[1].out.memory, got[0].out.memory); });
}

}  // namespace
}  // namespace inlay::test
