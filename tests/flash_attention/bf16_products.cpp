// bf16_products: what is rounded, where, and by whom.
#include "tests/flash_attention/case.hpp"

namespace inlay::test {
namespace {

// Bit for bit: with the dot product the result is that of operands rounded before, and not the exact one; without it,
// and where K or V is int8, it is the exact one.
TEST(flash_attention, bf16_products_round_each_operand_once) {
  Rng rng(51);
  const std::vector<std::pair<index, index>> dims = {{1, 7}, {7, 1}, {31, 33}, {64, 64}, {72, 20}, {130, 16}};
  std::size_t turn = 0;
  for (DType type : float_types)
    for (DType kv : kv_dtypes)
      for (index queries : {1, 3, 70}) {
        const auto [dim, v_dim] = dims[turn++ % dims.size()];
        Case plain = make({.queries = queries, .keys = 131, .kv_heads = 2, .group = 2, .dim = dim, .v_dim = v_dim}, rng,
                          type, kv);
        plain.causal = queries == 70;
        Case asked = plain;
        asked.compute = AttentionCompute::bf16_products;
        SCOPED_TRACE(describe(asked.op()));
        on_every_backend([&](const std::string& label, auto run) {
          Case got = asked, exact = plain, rounded = in_bf16(plain);
          ASSERT_TRUE(ok(run(got.op())));
          ASSERT_TRUE(ok(run(exact.op())));
          ASSERT_TRUE(ok(run(rounded.op())));
          const bool in_pairs = multiplies_bf16(label) && kv != DType::i8;
          const Case& expected = in_pairs ? rounded : exact;
          expect_equal(got.out.memory, expected.out.memory);
          expect_equal(got.lse, expected.lse);
          if (!in_pairs) return;
          index differ = 0;
          for (index e = 0; e < got.out.memory.size(); ++e) differ += got.out.memory.get(e) != exact.out.memory.get(e);
          EXPECT_GT(differ, got.out.memory.size() / 8);
        });
      }
}

// Eight keys of one weight behind one of weight 1: their V has the weight as bf16 holds it, lse as it is.
TEST(flash_attention, bf16_products_leave_the_denominator_as_it_is) {
  Rng rng(52);
  for (double size : {0.0, 2.0}) {
    Case c = make({.queries = 2, .keys = 9, .kv_heads = 1, .group = 1, .dim = 2, .v_dim = 2}, rng);
    c.scale = 1;
    for (index i = 0; i < 2; ++i) c.q.set(0, i, 0, 0, 1), c.q.set(0, i, 0, 1, 0);
    for (index j = 0; j < 9; ++j)
      for (index d = 0; d < 2; ++d) c.k.set(0, j, 0, d, j == 0 ? size : 0), c.v.set(0, j, 0, d, j == 0 ? 0 : 1);
    c = in_bf16(c);
    const double small = std::exp(-size), whole = 8 * small / (1 + 8 * small);
    const double rounded = 8 * round_to(DType::bf16, static_cast<float>(small)) / (1 + 8 * small);
    on_every_cpu([&](const std::string& label, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      EXPECT_NEAR(got.out.get(0, 1, 0, 1), multiplies_bf16(label) ? rounded : whole, 1e-6);
      EXPECT_NEAR(got.lse.get(1), size + std::log1p(8 * small), 1e-6);
    });
  }
}

// A key of either half of a pair, whose weight is 0, and an infinity in its V: who sees it is not finite there, and
// nobody else. The window's first tile begins at an odd key.
TEST(flash_attention, bf16_products_meet_what_is_seen_however_small_its_weight) {
  constexpr index keys = 70;
  for (index queries : {keys, index{6}})
    for (index key : {44, 45}) {
      Rng rng(55);
      Case c = make({.queries = queries, .keys = keys, .kv_heads = 1, .group = 1, .dim = 4, .v_dim = 5}, rng);
      c.scale = 1;
      c.causal = true;
      c.left = queries < keys ? 21 : -1;
      for (index i = 0; i < queries; ++i) c.q.set(0, i, 0, 0, 1);
      for (index j = 0; j < keys; ++j) c.k.set(0, j, 0, 0, j == key ? -0x1p14 : 0);
      c.v.set(0, key, 0, 2, HUGE_VAL);
      c = in_bf16(c);
      on_every_cpu([&](const std::string&, auto run) {
        Case got = c;
        ASSERT_TRUE(ok(run(got.op())));
        for (index i = 0; i < queries; ++i) {
          const index position = keys - queries + i;
          const bool sees = key <= position && (c.left < 0 || key >= position - c.left);
          for (index d = 0; d < 5; ++d)
            ASSERT_EQ(std::isfinite(got.out.get(0, i, 0, d)), d != 2 || !sees) << i << ' ' << d;
        }
      });
    }
}

// Rows around what shares a task, keys around tiles, windows that begin at even and at odd keys.
TEST(flash_attention, bf16_products_around_the_tiles) {
  Rng rng(53);
  for (index group : {1, 7, 8})
    for (const auto& [queries, keys] : {std::pair<index, index>{1, 1},
                                        {1, cpu::key_tile - 1},
                                        {2, cpu::key_tile},
                                        {3, cpu::key_tile + 1},
                                        {cpu::max_rows / 3 + 1, cpu::max_rows + 1},
                                        {cpu::key_tile + 1, 2 * cpu::key_tile + 1},
                                        {cpu::max_rows + 1, 5}})
      for (index left : {-1, 6, 7}) {
        Case c =
            make({.batch = 2, .queries = queries, .keys = keys, .kv_heads = 2, .group = group, .dim = 20, .v_dim = 24},
                 rng, DType::f32, float_types[static_cast<std::size_t>(keys % 3)]);
        c.causal = left >= 0;
        c.left = left;
        ASSERT_NO_FATAL_FAILURE(compare(in_bf16(c)));
      }
}

// Pairs of keys across blocks of odd sizes.
TEST(flash_attention, bf16_products_through_a_block_table) {
  Rng rng(54);
  for (index block : {1, 7, 16, 33})
    for (bool odd : {false, true}) {
      Case c = make({.batch = 2, .queries = 9, .keys = 150, .kv_heads = 2, .group = 3, .dim = 40, .v_dim = 33}, rng,
                    DType::f32, DType::f16);
      c.kv_lens = list_of(DType::i32, {150, 77});
      c.causal = true;
      c.left = odd ? 70 : 69;
      page(c, block, rng);
      ASSERT_NO_FATAL_FAILURE(compare(in_bf16(c)));
    }
}

}  // namespace
}  // namespace inlay::test
