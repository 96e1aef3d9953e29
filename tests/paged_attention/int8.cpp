// int8 caches: scales of tokens, of the whole cache, and both.
#include "tests/paged_attention/bound.hpp"

namespace inlay::test {
namespace {

TEST(paged_attention, int8_scales_of_tokens_together_with_the_caches_own) {
  Rng rng(41);
  for (Pages pages : all_pages)
    for (index partition : {0, 50})
      for (index block_size : {1, 5, 16, 256}) {
        SCOPED_TRACE(name(pages));
        Case c = make({.lens = {170, 1, 0, 64},
                       .q_heads = 6,
                       .kv_heads = 2,
                       .key_dim = 24,
                       .value_dim = 12,
                       .block_size = block_size,
                       .cache = DType::i8,
                       .pages = pages,
                       .layout = layouts[1]},
                      rng);
        c.sinks = random_sinks(6, rng);
        c.extra.k_tensor_scale = 1.75f;
        c.extra.v_tensor_scale = 0.375f;
        c.extra.partition = partition;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(paged_attention, int8_with_one_scale_for_all) {
  Rng rng(16);
  for (Pages pages : all_pages)
    for (DType out : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(name(pages));
      Case c = make({.lens = {140, 3}, .cache = DType::i8, .out = out, .pages = pages}, rng);
      c.k_scale = c.v_scale = {};
      c.extra.k_tensor_scale = 0.01f;
      c.extra.v_tensor_scale = 0.02f;
      c.extra.partition = 100;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// A pool of one block with one slot: its scales are those of the whole sequence.
TEST(paged_attention, int8_scales_of_a_pool_of_one_slot) {
  Rng rng(42);
  for (Pages pages : all_pages) {
    SCOPED_TRACE(name(pages));
    Case c =
        make({.lens = {1}, .key_dim = 18, .value_dim = 7, .block_size = 1, .cache = DType::i8, .pages = pages}, rng);
    const auto one_block = [&](const Case& start, Tensor<3>& scales) {
      Tensor<3> first(DType::f32, {1, scales.extents()[1], 1});
      for (index k = 0; k < first.size(); ++k)
        first.set(k, start.scale_of(scales, static_cast<index>(start.tables.get(0)), k - start.spare));
      scales = first;
    };
    // The block that the table names becomes block 0 of a pool of its own, and the context names it 70 times.
    Case one = c;
    one.keys = {DType::i8, {1, 1, 2, 18, 0, 1}, pages, Pool::keys};
    one.values = {DType::i8, {1, 1, 2, 7, 0, 1}, pages, Pool::values};
    one_block(c, one.k_scale), one_block(c, one.v_scale);
    const index block = static_cast<index>(c.tables.get(0));
    for (index h = 0; h < 2; ++h) {
      for (index d = 0; d < 18; ++d) one.keys.set(0, h, d, c.keys.get(block, h, d));
      for (index d = 0; d < 7; ++d) one.values.set(0, h, d, c.values.get(block, h, d));
    }
    for (index length : {1, 70}) {
      one.tables = Tensor<2>(DType::i32, {1, length}).fill(0);
      one.lens.fill(static_cast<double>(length));
      one.extra.partition = 32;
      ASSERT_NO_FATAL_FAILURE(compare(one));
    }
  }
}

// -128 throughout: the sums are exact in f32.
TEST(paged_attention, int8_extremes) {
  Rng rng(17);
  for (Pages pages : all_pages) {
    Case start = make({.lens = {256},
                       .q_heads = 2,
                       .kv_heads = 1,
                       .key_dim = 576,
                       .value_dim = 576,
                       .cache = DType::i8,
                       .pages = pages},
                      rng);
    start.q.fill(-1);
    start.keys.memory.fill(-128);
    start.values.memory.fill(-128);
    start.k_scale.fill(1);
    start.v_scale.fill(1);
    start.extra.scale = 1;
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index h = 0; h < 2; ++h) {
        for (index d = 0; d < 576; ++d) ASSERT_EQ(got.out.get(got.out_at(0, h, d)), -128);
        // log 256 is lost beside 576 * 128, whose f32 neighbours lie 2^-7 apart
        EXPECT_NEAR(got.lse.get(got.lse_at(0, h)), 576.0 * 128 + std::log(256.0), 0x1p-8);
      }
    });
  }
}

// A visible token whose weight has become 0 still brings the NaN of its scale; one before the window does not.
TEST(paged_attention, int8_scales_that_are_not_finite) {
  Rng rng(47);
  for (double bad : {nan, infinity})
    for (Pages pages : all_pages)
      for (index hidden : {0, 1}) {
        SCOPED_TRACE(name(pages));
        Case start = make({.lens = {70}, .cache = DType::i8, .pages = pages}, rng);
        start.extra.scale = 1e6f;  // one weight of 1, the others 0
        start.extra.window_left = 60;
        for (index i = 0; i < 4; ++i) start.tables.set(i, static_cast<double>(i));  // no repetition
        start.set_scale(start.v_scale, start.slot_of(0, hidden ? 8 : 20), 1, bad);
        on_every_backend([&](const std::string&, auto run) {
          Case got = start;
          ASSERT_TRUE(ok(run(got.op())));
          for (index h = 0; h < 4; ++h)
            for (index d = 0; d < 24; ++d)
              EXPECT_EQ(std::isnan(got.out.get(got.out_at(0, h, d))), h >= 2 && !hidden) << h << " " << d;
        });
      }
}

}  // namespace
}  // namespace inlay::test
