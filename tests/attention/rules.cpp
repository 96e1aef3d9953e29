// What holds for every operator of attention, whatever its fields are called.
#include <Eigen/Core>

#include "tests/attention/contract.hpp"
#include "tests/support/small_numbers.hpp"

namespace inlay::test {
namespace {

constexpr index largest = std::numeric_limits<index>::max();

double at(const AttentionCase& c, index b, index i, index h, index d) { return c.out.get(b, i, h, d); }
double lse_at(const AttentionCase& c, index b, index i, index h) {
  const auto& e = c.lse.extents();
  return c.lse.get((b * e[1] + i) * e[2] + h);
}

// Those of contracts.md, ggml's FLASH_ATTN_EXT, MLA's, and a V that is narrower or wider than K.
TEST_P(Attention, head_dims) {
  Rng rng(1);
  std::vector<std::pair<index, index>> dims;
  for (index dim : head_dims) dims.push_back({dim, dim});
  for (const auto& pair : {std::pair<index, index>{40, 40},
                           {72, 72},
                           {192, 128},
                           {320, 256},
                           {576, 512},
                           {1, 7},
                           {7, 1},
                           {16, 48},
                           {32, 16},
                           {48, 32}})
    dims.push_back(pair);
  std::size_t turn = 0;
  for (const auto& [dim, v_dim] : dims)
    for (index group : {1, 3, 8}) {
      AttentionCase c = problem({.batch = 2,
                                 .queries = up_to(3),
                                 .keys = 70,
                                 .kv_heads = static_cast<index>(1 + turn % 2),
                                 .group = group,
                                 .dim = dim,
                                 .v_dim = v_dim},
                                rng, float_types[turn % 3], kv_dtypes[turn % 4], float_types[(turn + 1) % 3],
                                layouts[turn % 3], turn % 2);
      c.causal = turn % 2;
      if (turn % 2) c.kv_lens = list_of(DType::i32, {5, 67});
      ++turn;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// What is read of all kv heads before the next: as many tokens as K of one token leaves room for.
TEST_P(Attention, lengths_around_the_stretches) {
  Rng rng(19);
  constexpr index dim = 64;
  for (index tokens = cpu::row_tile; tokens <= cpu::key_tile; tokens *= 2) {
    const index heads = std::min<index>(cpu::kv_chunk_bytes / tokens / (4 * dim), cpu::max_rows);
    SCOPED_TRACE(describe("tokens", tokens, "heads", heads));
    for (index keys : {tokens - 1, tokens, tokens + 1, cpu::key_tile + tokens + 5})
      for (index queries = 1; queries <= up_to(2); ++queries) {
        if (queries == 2 && keys <= tokens) continue;
        AttentionCase c =
            problem({.queries = queries, .keys = keys, .kv_heads = heads, .group = 1, .dim = dim, .v_dim = 20}, rng);
        c.causal = true;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
  }
}

// A key of zeros scores exactly 0.
TEST_P(Attention, softcaps_of_every_size) {
  Rng rng(41);
  const ProblemShape shape{.queries = up_to(3), .keys = 70, .kv_heads = 1, .group = 2, .dim = 12, .v_dim = 20};
  for (float softcap : extreme_softcaps) {
    AttentionCase c = problem(shape, rng);
    for (index d = 0; d < 12; ++d) c.k.set(0, 5, 0, d, 0);
    c.softcap = softcap;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
  // The largest scores at half the cap, where tanh bends: what is off in its polynomial is so by 60 times as much.
  AttentionCase c = problem(shape, rng);
  c.softcap = 60, c.scale = 10;
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

TEST_P(Attention, equal_scores_give_the_mean_and_log_n) {
  Rng rng(9);
  for (DType kv : {DType::f32, DType::i8}) {
    AttentionCase start =
        problem({.batch = 2, .queries = up_to(2), .keys = 70, .kv_heads = 2, .group = 1, .dim = 24, .v_dim = 24}, rng,
                DType::f32, kv);
    start.q.memory.fill(0);
    start.kv_lens = list_of(DType::i32, {70, 0});
    ASSERT_NO_FATAL_FAILURE(compare(start));
    on_every_backend(start, [&](const AttentionCase& got) {
      for (index h = 0; h < 2; ++h) {
        EXPECT_NEAR(lse_at(got, 0, 0, h), std::log(70.0), 4 * epsilon(DType::f32) * std::log(70.0));
        EXPECT_EQ(lse_at(got, 1, 0, h), -infinity);
        for (index d = 0; d < 24; ++d) {
          double mean = 0;
          for (index j = 0; j < 70; ++j) mean += plain(start.v.get(0, j, h, d), start.v_scale, {}, 0, j, h, d) / 70;
          EXPECT_NEAR(at(got, 0, 0, h, d), mean, 1e-6);
          EXPECT_EQ(at(got, 1, 0, h, d), 0);
        }
      }
    });
  }
}

// One key: its V. A sink as high as the key takes half.
TEST_P(Attention, one_key_and_its_sink) {
  Rng rng(12);
  AttentionCase one = problem({.queries = 1, .keys = 1, .kv_heads = 1, .group = 1, .dim = 8, .v_dim = 8}, rng);
  AttentionCase half = one;
  half.sinks = Tensor<1>(DType::f32, {1}).fill(0);
  half.q.memory.fill(0);
  contract().on_every_backend({one, half}, [&](const Contract::Problems& got) {
    for (index d = 0; d < 8; ++d) {
      EXPECT_EQ(at(got[0], 0, 0, 0, d), one.v.get(0, 0, 0, d));
      EXPECT_NEAR(at(got[1], 0, 0, 0, d), one.v.get(0, 0, 0, d) / 2, 1e-7);
    }
  });
}

// A second oracle, dense and in matrices.
TEST_P(Attention, reference_agrees_with_eigen) {
  Rng rng(13);
  const index queries = up_to(7);
  for (int form = 0; form < contract().forms; ++form) {
    AttentionCase c =
        problem({.batch = 2, .queries = queries, .keys = 70, .kv_heads = 2, .group = 3, .dim = 24, .v_dim = 10}, rng);
    c.form = form;
    c.kv_lens = list_of(DType::i32, {23, 70});
    const auto judge = contract().judge(c);
    for (index b = 0; b < 2; ++b)
      for (index h = 0; h < 6; ++h) {
        const index n = static_cast<index>(c.kv_lens.get(b));
        Eigen::MatrixXd q(queries, 24), k(n, 24), v(n, 10);
        for (index i = 0; i < queries; ++i)
          for (index d = 0; d < 24; ++d) q(i, d) = c.q.get(b, i, h, d);
        for (index j = 0; j < n; ++j) {
          for (index d = 0; d < 24; ++d) k(j, d) = c.k.get(b, j, h / 3, d);
          for (index d = 0; d < 10; ++d) v(j, d) = c.v.get(b, j, h / 3, d);
        }
        const Eigen::MatrixXd p = (q * k.transpose() / std::sqrt(24.0)).array().exp();
        const Eigen::VectorXd sums = p.rowwise().sum();
        const Eigen::MatrixXd out = sums.cwiseInverse().asDiagonal() * (p * v);
        for (index i = 0; i < queries; ++i) {
          EXPECT_NEAR(lse_at(judge->right(), b, i, h), std::log(sums(i)), 1e-6);
          for (index d = 0; d < 10; ++d) EXPECT_NEAR(at(judge->right(), b, i, h, d), out(i, d), 1e-7);
        }
      }
  }
}

TEST_P(Attention, no_keys_give_zero) {
  Rng rng(4);
  AttentionCase c =
      problem({.batch = 3, .queries = up_to(2), .keys = 20, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  c.kv_lens = list_of(DType::i32, {0, 20, 0});
  on_every_backend(c, [&](const AttentionCase& got) {
    each_place(got.out.view_extents(), [&](index b, index i, index h, index d) {
      ASSERT_TRUE(b == 1 || at(got, b, i, h, d) == 0);
      ASSERT_EQ(lse_at(got, b, i, h) == -infinity, b != 1);
    });
  });
  c.kv_lens.fill(0);
  on_every_backend(c, [&](const AttentionCase& got) {
    each_place(got.out.view_extents(), [&](index b, index i, index h, index d) {
      ASSERT_EQ(at(got, b, i, h, d), 0);
      ASSERT_EQ(lse_at(got, b, i, h), -infinity);
    });
  });
}

// The sink is all that its denominator has; a sink of -inf is none.
TEST_P(Attention, a_row_without_keys_has_its_sink_as_lse) {
  Rng rng(14);
  AttentionCase start =
      problem({.batch = 2, .queries = up_to(2), .keys = 20, .kv_heads = 1, .group = 2, .dim = 8, .v_dim = 8}, rng);
  start.kv_lens = list_of(DType::i32, {0, 20});
  AttentionCase none = start;
  start.sinks = Tensor<1>(DType::f32, {2});
  start.sinks.set(0, 1.5), start.sinks.set(1, -infinity);
  ASSERT_NO_FATAL_FAILURE(compare(start));
  contract().on_every_backend({start, none}, [&](const Contract::Problems& got) {
    for (index h = 0; h < 2; ++h)
      for (index d = 0; d < 8; ++d) ASSERT_EQ(at(got[0], 0, 0, h, d), 0);
    EXPECT_EQ(lse_at(got[0], 0, 0, 0), 1.5);
    EXPECT_EQ(lse_at(got[0], 0, 0, 1), -infinity);
    for (index d = 0; d < 8; ++d) EXPECT_EQ(at(got[0], 1, 0, 1, d), at(got[1], 1, 0, 1, d));
    EXPECT_EQ(lse_at(got[0], 1, 0, 1), lse_at(got[1], 1, 0, 1));
  });
}

TEST_P(Attention, lse_may_be_left_out) {
  Rng rng(18);
  for (int form = 0; form < contract().forms; ++form) {
    AttentionCase with =
        problem({.batch = 3, .queries = up_to(3), .keys = 70, .kv_heads = 2, .group = 2, .dim = 6, .v_dim = 5}, rng);
    with.kv_lens = list_of(DType::i32, {70, 0, 3});
    with.form = form;
    AttentionCase without = with;
    without.with_lse = false;
    contract().on_every_backend({with, without}, [&](const Contract::Problems& got) {
      expect_equal(got[1].out.memory, got[0].out.memory);
      EXPECT_EQ(got[1].lse, with.lse);  // as it was
    });
  }
}

// One key wins by far: the output is its V, whatever the size of the logits.
TEST_P(Attention, huge_logits) {
  Rng rng(9);
  for (double size : {1e5, -1e5}) {
    AttentionCase c =
        problem({.queries = up_to(2), .keys = 100, .kv_heads = 1, .group = 1, .dim = 16, .v_dim = 16}, rng);
    c.scale = 1;
    c.q.memory.fill(0), c.k.memory.fill(0);
    for (index i = 0; i < up_to(2); ++i) c.q.set(0, i, 0, 0, 1);
    for (index j = 0; j < 100; ++j) c.k.set(0, j, 0, 0, size + 50.0 * (j == 77));
    on_every_backend(c, [&](const AttentionCase& got) {
      for (index d = 0; d < 16; ++d) ASSERT_NEAR(at(got, 0, up_to(2) - 1, 0, d), c.v.get(0, 77, 0, d), 1e-6);
      ASSERT_NEAR(lse_at(got, 0, 0, 0), size + 50, 0.02);
    });
  }
}

// A key that is not finite spoils the rows of the heads that read it, and no others.
TEST_P(Attention, a_visible_nan_or_infinite_key_stays_in_its_head) {
  Rng rng(8);
  for (double bad : {nan, infinity})
    for (int form = 0; form < contract().forms; ++form)
      for (index keys : {index{40}, 2 * contract().split + 70}) {
        AttentionCase c =
            problem({.queries = up_to(2), .keys = keys, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
        c.form = form;
        c.q.memory.fill(0.5);
        c.k.set(0, keys == 40 ? 3 : contract().split + 6, 1, 2, bad);
        on_every_backend(c, [&](const AttentionCase& got) {
          for (index h = 0; h < 4; ++h) {
            ASSERT_EQ(std::isnan(lse_at(got, 0, 0, h)), h >= 2) << h;
            for (index d = 0; d < 8; ++d) ASSERT_EQ(std::isnan(at(got, 0, 0, h, d)), h >= 2) << h;
          }
        });
      }
}

TEST_P(Attention, windows_of_any_size) {
  Rng rng(2);
  for (int form = 0; form < contract().forms; ++form) {
    AttentionCase c = problem({.queries = up_to(3), .keys = 70, .kv_heads = 1, .group = 2, .dim = 8, .v_dim = 8}, rng);
    c.form = form;
    Contract::Problems starts{c};
    for (index size : {largest, largest - 1, largest - 70, index{1} << 62, index{70}}) {
      c.left = size;
      starts.push_back(c);
    }
    contract().on_every_backend(starts, [&](const Contract::Problems& got) {
      for (const AttentionCase& windowed : got) {
        expect_equal(windowed.out.memory, got[0].out.memory);
        expect_equal(windowed.lse, got[0].lse);
      }
    });
  }
}

TEST_P(Attention, subnormals) {
  Rng rng(20);
  for (DType type : float_types)
    for (index keys : subnormal_sizes)
      for (bool small_v : {false, true}) {
        SCOPED_TRACE(small_v ? "small v" : "small q and k");
        AttentionCase c = problem(
            {.queries = up_to(3), .keys = keys, .kv_heads = 1, .group = 3, .dim = 20, .v_dim = 24}, rng, type, type);
        if (small_v)
          subnormals(c.v.memory, rng, keys % 2);
        else
          subnormals(c.q.memory, rng, keys % 2), subnormals(c.k.memory, rng);
        // For each key an operand, a product and a sum, which round to the least number or are lost.
        ASSERT_NO_FATAL_FAILURE(contract().compare_flushed(c, small_v && keys % 2 == 0 ? smallest_normal(type) : 1,
                                                           3 * static_cast<double>(keys)));
      }
}

// Scales of int8 slots that are not used hold NaN, as a cache that was never written may.
TEST_P(Attention, unused_scales_are_not_read) {
  Rng rng(7);
  AttentionCase c =
      problem({.keys = 40, .kv_heads = 1, .group = 2, .dim = 10, .v_dim = 12}, rng, DType::f32, DType::i8);
  c.kv_lens = list_of(DType::i32, {33});
  for (Tensor<4>* scale : {&c.k_scale, &c.v_scale}) {
    *scale = Tensor<4>(DType::f32, {1, 40, 1, 1}).fill(0.01);
    for (index j = 33; j < 40; ++j) scale->set(j, nan);
  }
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

// A code is a number from -128 to 127, whatever its place in a register.
TEST_P(Attention, int8_codes_are_signed) {
  Rng rng(43);
  AttentionCase start =
      problem({.keys = 1, .kv_heads = 1, .group = 1, .dim = 24, .v_dim = 256}, rng, DType::f32, DType::i8);
  start.v_scale.fill(1);
  for (index d = 0; d < 256; ++d) start.v.set(0, 0, 0, d, static_cast<double>(d - 128));
  on_every_backend(start, [&](const AttentionCase& got) {
    for (index d = 0; d < 256; ++d) ASSERT_EQ(at(got, 0, 0, 0, d), d - 128);
  });
}

TEST_P(Attention, a_kv_head_of_128_as_mla) {
  Rng rng(4);
  for (DType kv : {DType::f16, DType::i8}) {
    AttentionCase c = problem({.keys = 70, .kv_heads = 1, .group = 128, .dim = 80, .v_dim = 64}, rng, DType::f32, kv);
    drift(c, kv == DType::f16);
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

}  // namespace
}  // namespace inlay::test
