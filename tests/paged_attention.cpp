#include <Eigen/Core>

#include "tests/paged_attention/case.hpp"

namespace inlay::test {
namespace {

TEST(paged_attention, block_sizes_layouts_and_types) {
  Rng rng(1);
  for (DType cache : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (Pages pages : all_pages)
      for (index block_size : {1, 3, 5, 8, 16, 32, 256}) {
        SCOPED_TRACE(name(pages));
        Case c = make({.lens = {0, 1, block_size, 70},
                       .block_size = block_size,
                       .cache = cache,
                       .pages = pages,
                       .layout = layouts[block_size % 3]},
                      rng);
        c.extra.partition = 32;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(paged_attention, head_dims) {
  Rng rng(2);
  for (index dim : head_dims)
    for (Pages pages : {Pages::flat, Pages::vllm}) {
      SCOPED_TRACE(name(pages));
      compare(
          make({.lens = {5, 37}, .q_heads = 3, .kv_heads = 1, .key_dim = dim, .value_dim = dim, .pages = pages}, rng));
    }
  for (Pages pages : all_pages)
    compare(make({.lens = {37}, .key_dim = 192, .value_dim = 128, .cache = DType::bf16, .pages = pages}, rng));
}

TEST(paged_attention, groups) {
  Rng rng(3);
  for (index group : {1, 2, 3, 4, 5, 7, 8, 9, 16})
    for (Pages pages : {Pages::flat, Pages::vllm}) {
      SCOPED_TRACE(name(pages));
      compare(make({.lens = {65, 3}, .q_heads = 3 * group, .kv_heads = 3, .pages = pages}, rng));
    }
}

TEST(paged_attention, lengths_around_tiles_and_partitions) {
  Rng rng(4);
  for (index partition : {0, 1, 16, 63, 64, 65, 512})
    for (Pages pages : {Pages::flat, Pages::vllm}) {
      SCOPED_TRACE(name(pages));
      Case c = make({.lens = {1, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129},
                     .q_heads = 2,
                     .kv_heads = 1,
                     .key_dim = 8,
                     .value_dim = 9,
                     .block_size = 5,
                     .pages = pages},
                    rng);
      c.extra.partition = partition;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(paged_attention, query_and_output_types_in_a_fused_row) {
  Rng rng(5);
  for (DType q : float_types)
    for (DType out : float_types)
      for (const Layout& layout : layouts) {
        compare(make({.lens = {20, 0, 9}, .key_dim = 33, .value_dim = 17, .q = q, .out = out, .layout = layout}, rng));
      }
}

TEST(paged_attention, alibi_window_softcap_and_sinks) {
  Rng rng(6);
  for (bool slopes : {false, true})
    for (index window : {-1, 0, 1, 20})
      for (float softcap : {0.0f, 2.0f})
        for (bool sinks : {false, true})
          for (BiasOrder order : bias_orders) {
            // 12 heads: no power of two
            Case c = make({.lens = {0, 1, 21, 90}, .q_heads = 12, .kv_heads = 4, .key_dim = 8, .value_dim = 8}, rng);
            if (slopes) c.slopes = alibi_slopes(12);
            if (sinks) c.sinks = random_sinks(12, rng);
            c.extra.window_left = window;
            c.extra.softcap = softcap;
            c.extra.bias_order = order;
            c.extra.scale = 0.7f;
            c.extra.partition = 32;
            ASSERT_NO_FATAL_FAILURE(compare(c));
          }
}

// vLLM's and FlashInfer's own test dimensions, with contexts cut to what a scalar reference does in time.
TEST(paged_attention, third_party_dimensions) {
  Rng rng(7);
  struct Heads {
    index q, kv;
  };
  for (Heads heads : {Heads{32, 8}, Heads{40, 40}, Heads{64, 8}})
    for (index block_size : {16, 32})
      for (bool alibi : {false, true}) {
        Case c = make({.lens = {59},
                       .q_heads = heads.q,
                       .kv_heads = heads.kv,
                       .key_dim = 64,
                       .value_dim = 64,
                       .block_size = block_size,
                       .pages = block_size == 16 ? Pages::vllm : Pages::flat},
                      rng);
        if (alibi) c.slopes = alibi_slopes(heads.q);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
  for (index length : {54, 97, 512, 1025})
    for (index page : {1, 8, 16}) {
      SCOPED_TRACE(length);
      compare(make({.lens = {length},
                    .q_heads = 4,
                    .kv_heads = 4,
                    .key_dim = 32,
                    .value_dim = 32,
                    .block_size = page,
                    .pages = Pages::head_major},
                   rng));
    }
}

// A second oracle, dense and in matrices: K and V gathered by hand.
TEST(paged_attention, reference_agrees_with_eigen) {
  Rng rng(8);
  Case c = make({.lens = {23, 70}, .q_heads = 6, .kv_heads = 2, .cache = DType::f32, .pages = Pages::vllm}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index b = 0; b < 2; ++b)
    for (index h = 0; h < 6; ++h) {
      const index n = static_cast<index>(c.lens.get(b)), columns = c.tables.extents()[1];
      Eigen::MatrixXd k(n, 24), v(n, 24);
      Eigen::VectorXd q(24);
      for (index d = 0; d < 24; ++d) q(d) = c.q.get((b * 6 + h) * 24 + d);
      for (index j = 0; j < n; ++j)
        for (index d = 0; d < 24; ++d) {
          const index slot = static_cast<index>(c.tables.get(b * columns + j / 16)) * 16 + j % 16;
          k(j, d) = c.keys.get(slot, h / 3, d);
          v(j, d) = c.values.get(slot, h / 3, d);
        }
      const Eigen::VectorXd s = k * q / std::sqrt(24.0);
      const Eigen::VectorXd p = (s.array() - s.maxCoeff()).exp();
      const Eigen::VectorXd expected = v.transpose() * p / p.sum();
      for (index d = 0; d < 24; ++d) EXPECT_NEAR(c.out.get((b * 6 + h) * 24 + d), expected(d), 1e-7);
      EXPECT_NEAR(c.lse.get(b * 6 + h), std::log(p.sum()) + s.maxCoeff(), 1e-6);
    }
}

TEST(paged_attention, equal_scores_give_the_mean_and_log_n) {
  Rng rng(9);
  for (DType cache : {DType::f32, DType::i8}) {
    Case start = make({.lens = {70, 0}, .q_heads = 2, .kv_heads = 2, .cache = cache}, rng);
    start.q.fill(0);
    start.extra.partition = 32;
    Case expected = start;
    Reference reference;
    ASSERT_TRUE(ok(run(reference, expected.op())));
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      expect_close(got.out, expected.out, 2 * 70, [](index) { return 1.0; });
      EXPECT_NEAR(got.lse.get(0), std::log(70.0), 1e-6);
      EXPECT_EQ(got.lse.get(2), -infinity);
      for (index k = 48; k < 96; ++k) EXPECT_EQ(got.out.get(k), 0);
    });
  }
}

TEST(paged_attention, one_part_and_many_agree) {
  Rng rng(12);
  const Case start = make({.lens = {1300, 600}, .q_heads = 8, .kv_heads = 2, .key_dim = 64, .value_dim = 64}, rng);
  const Bound limit = bound(start);
  on_every_backend([&](const std::string&, auto run) {
    Case v1 = start, v2 = start;
    v1.extra.partition = 0;
    ASSERT_TRUE(ok(run(v1.op())));
    ASSERT_TRUE(ok(run(v2.op())));
    expect_close(v1.out, v2.out, limit.out, [&](index) { return limit.value; });
    expect_close(v1.lse, v2.lse, limit.lse, [&](index) { return 1.0; });
  });
}

// Neither threads nor neighbours in the batch leave a trace.
TEST(paged_attention, bits_depend_on_the_sequence_alone) {
  Rng rng(13);
  const Case start =
      make({.lens = {300, 77, 0, 130}, .q_heads = 14, .kv_heads = 2, .key_dim = 40, .value_dim = 40}, rng);
  for (Isa isa : available_isas()) {
    Case first = start;
    first.extra.partition = 64;
    const Cpu one(isa, serial());
    ASSERT_TRUE(ok(run_with_scratch(one, first.op())));
    // Width decides how heads are cut; 16 of them need no 16 threads.
    Parallel wide = openmp(2);
    wide.width = 16;
    for (const Parallel& parallel : {openmp(2), openmp(3), wide}) {
      Case got = start;
      got.extra.partition = 64;
      const Cpu many(isa, parallel);
      ASSERT_TRUE(ok(run_with_scratch(many, got.op())));
      expect_equal(got.out, first.out);
      expect_equal(got.lse, first.lse);
    }
    Case got = start;
    got.extra.partition = 64;
    PagedAttention<Host> alone = got.op();
    alone.q = alone.q.slice(0, 1, 1);
    alone.block_tables = alone.block_tables.slice(0, 1, 1);
    alone.context_lens = alone.context_lens.slice(0, 1, 1);
    alone.out = alone.out.slice(0, 1, 1);
    alone.lse = alone.lse.slice(0, 1, 1);
    ASSERT_TRUE(ok(run_with_scratch(one, alone)));
    for (index k = 14 * 40; k < 2 * 14 * 40; ++k) ASSERT_EQ(got.out.get(k), first.out.get(k));
  }
}

// Blocks wholly before the window may be gone: their entries hold anything.
TEST(paged_attention, entries_before_the_window_are_not_read) {
  Rng rng(14);
  Case start = make({.lens = {90}}, rng);
  start.extra.window_left = 20;  // 69..89: blocks 4 and 5
  Case expected = start;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  for (index i = 0; i < 4; ++i) start.tables.set(i, -7);
  const Bound limit = bound(start);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_close(got.out, expected.out, limit.out, [&](index) { return limit.value; });
  });
}

// DeepSeek's latent: one kv head of 576, of which V is the first 512.
TEST(paged_attention, values_as_a_view_into_keys) {
  Rng rng(15);
  Case start = make({.lens = {70, 9}, .q_heads = 16, .kv_heads = 1, .key_dim = 576, .value_dim = 512}, rng);
  Case expected = start;
  const auto latent = [](Case& c) {
    PagedAttention<Host> op = c.op();
    op.value_cache = op.key_cache.slice(4, 0, 512);
    return op;
  };
  Reference reference;
  ASSERT_TRUE(ok(run(reference, latent(expected))));
  const Bound limit = bound(start);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(latent(got))));
    expect_close(got.out, expected.out, limit.out, [](index) { return std::sqrt(576.0); });
  });
}

TEST(paged_attention, int8_with_one_scale_for_all) {
  Rng rng(16);
  Case start = make({.lens = {40}, .cache = DType::i8, .pages = Pages::vllm}, rng);
  start.key_scales.fill(1);
  start.value_scales.fill(1);
  start.extra.key_scale = 0.01f;
  start.extra.value_scale = 0.02f;
  Case expected = start;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    PagedAttention<Host> op = got.op();
    op.key_scales = op.value_scales = {};
    ASSERT_TRUE(ok(run(op)));
    // |q . k| <= 24 * 1.27: 32 * 32 ulps of score, twice, on values up to 2.54.
    expect_close(got.out, expected.out, 2 * 32 * 32 / 4.8, [](index) { return 2.54; });
  });
}

TEST(paged_attention, refuses_before_anything_is_written) {
  Rng rng(20);
  const Case start = make({.lens = {40, 20}}, rng);  // 9 blocks, 4 table entries of 16
  const auto refuse = [&](auto change, std::initializer_list<std::string_view> words) {
    Case c = start;
    PagedAttention<Host> op = c.op();
    change(c, op);
    expect_refused(op, words);
    on_every_backend([&](const std::string&, auto run) {
      EXPECT_FALSE(run(op).ok());
      expect_equal(c.out, start.out);
    });
  };
  refuse([](Case& c, auto&) { c.tables.set(5, 9); }, {"block_tables[1, 1]", "9", "0..8"});
  refuse([](Case& c, auto&) { c.tables.set(0, -1); }, {"block_tables[0, 0]", "-1"});
  refuse([](Case& c, auto&) { c.lens.set(1, 65); }, {"context_lens[1]", "65", "0..64"});
  refuse([](Case& c, auto&) { c.lens.set(0, -2); }, {"context_lens[0]", "-2"});
  refuse([](Case&, auto& op) { op.q.extents[1] = op.out.extents[1] = op.lse.extents[1] = 3; }, {"q", "3", "2"});
  refuse([](Case&, auto& op) { op.q.extents[2] = 23; }, {"key_cache", "24", "23"});
  refuse([](Case&, auto& op) { op.value_cache.dtype = DType::bf16; }, {"value_cache", "bf16", "f16"});
  Tensor<3> scales(DType::f32, {9, 2, 16});
  refuse([&](Case&, auto& op) { op.key_scales = scales; }, {"key_scales", "i8"});
  refuse([](Case&, auto& op) { op.key_scale = 2; }, {"key_scale", "i8"});
  refuse([](Case&, auto& op) { op.softcap = -1; }, {"softcap", "-1"});
  refuse([](Case&, auto& op) { op.partition = -1; }, {"partition", "-1"});
  refuse([](Case&, auto& op) { op.bias_order = static_cast<BiasOrder>(3); }, {"bias_order", "3", "0..2"});
  refuse([](Case&, auto& op) { op.scale = INFINITY; }, {"scale", "finite"});
  refuse([](Case&, auto& op) { op.block_tables.dtype = DType::i64; }, {"block_tables", "i64", "i32"});
  Tensor<1> three(DType::f32, {3});
  refuse([&](Case&, auto& op) { op.sinks = three; }, {"sinks", "3", "4"});
  refuse([](Case&, auto& op) { op.out.extents[2] = 8; }, {"out", "8", "24"});
}

}  // namespace
}  // namespace inlay::test
