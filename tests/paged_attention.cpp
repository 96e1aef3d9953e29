#include "tests/paged_attention/bound.hpp"

namespace inlay::test {
INLAY_RUNS_OF(PagedAttention);

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
                       .layout = layouts[block_size % 3],
                       .spare = block_size % 2},
                      rng);
        c.extra.partition = 32;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(paged_attention, head_dims) {
  Rng rng(2);
  for (index dim : head_dims)
    for (Pages pages : all_pages) {
      SCOPED_TRACE(name(pages));
      ASSERT_NO_FATAL_FAILURE(compare(
          make({.lens = {5, 37}, .q_heads = 3, .kv_heads = 1, .key_dim = dim, .value_dim = dim, .pages = pages}, rng)));
    }
  for (Pages pages : all_pages)
    for (DType cache : {DType::f32, DType::bf16, DType::i8})
      ASSERT_NO_FATAL_FAILURE(
          compare(make({.lens = {37}, .key_dim = 192, .value_dim = 128, .cache = cache, .pages = pages}, rng)));
}

TEST(paged_attention, query_and_output_types_in_a_fused_row) {
  Rng rng(5);
  for (DType q : float_types)
    for (DType out : float_types)
      for (const Layout& layout : layouts)
        ASSERT_NO_FATAL_FAILURE(compare(
            make({.lens = {20, 0, 9}, .key_dim = 33, .value_dim = 17, .q = q, .out = out, .layout = layout}, rng)));
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

// Logits from -20 to 20: the maximum moves from tile to tile and from part to part, and few keys carry the sum.
TEST(paged_attention, sharp_softmax) {
  Rng rng(21);
  for (Pages pages : all_pages)
    for (index partition : {0, 64, 100})
      for (float softcap : {0.0f, 5.0f}) {
        SCOPED_TRACE(name(pages));
        Case c =
            make({.lens = {300, 3, 129}, .key_dim = 16, .value_dim = 16, .cache = DType::f32, .pages = pages}, rng);
        c.sinks = Tensor<1>(DType::f32, {4}).uniform(rng, -15, 15);
        c.extra.scale = 6;
        c.extra.softcap = softcap;
        c.extra.partition = partition;
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
                       .pages = block_size == 16 ? Pages::vllm : Pages::flat,
                       .spare = 0},
                      rng);
        if (alibi) c.slopes = alibi_slopes(heads.q);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
  for (index length : {54, 97, 512, 1025})
    for (index page : {1, 8, 16}) {
      SCOPED_TRACE(length);
      ASSERT_NO_FATAL_FAILURE(compare(make({.lens = {length},
                                            .q_heads = 4,
                                            .kv_heads = 4,
                                            .key_dim = 32,
                                            .value_dim = 32,
                                            .block_size = page,
                                            .pages = Pages::head_major},
                                           rng)));
    }
}

TEST(paged_attention, equal_scores_give_the_mean_and_log_n) {
  Rng rng(9);
  for (DType cache : {DType::f32, DType::i8}) {
    Case start = make({.lens = {70, 0}, .q_heads = 2, .kv_heads = 2, .cache = cache}, rng);
    start.q.fill(0);
    start.extra.partition = 32;
    ASSERT_NO_FATAL_FAILURE(compare(start));
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index h = 0; h < 2; ++h) {
        EXPECT_NEAR(got.lse.get(got.lse_at(0, h)), std::log(70.0), 4 * epsilon(DType::f32) * std::log(70.0));
        EXPECT_EQ(got.lse.get(got.lse_at(1, h)), -infinity);
        for (index d = 0; d < 24; ++d) EXPECT_EQ(got.out.get(got.out_at(1, h, d)), 0);
      }
    });
  }
}

// Blocks wholly before the window may be gone: their entries hold anything.
TEST(paged_attention, entries_before_the_window_are_not_read) {
  Rng rng(14);
  for (Pages pages : all_pages) {
    Case start = make({.lens = {90}, .pages = pages}, rng);
    start.extra.window_left = 20;  // 69..89: blocks 4 and 5
    for (index i = 0; i < 4; ++i) start.tables.set(i, -7);
    ASSERT_NO_FATAL_FAILURE(compare(start));
    start.tables.set(4, -7);
    expect_refused(start.op(), {"block_tables[0, 4]", "-7"});
  }
}

// DeepSeek's latent: one kv head of 576, of which V is the first 512.
TEST(paged_attention, values_as_a_view_into_keys) {
  Rng rng(15);
  for (Pages pages : {Pages::flat, Pages::head_major}) {
    Case start =
        make({.lens = {70, 9}, .q_heads = 16, .kv_heads = 1, .key_dim = 576, .value_dim = 512, .pages = pages}, rng);
    for (index slot = 0; slot < slot_count(start.keys.view()); ++slot)
      for (index d = 0; d < 512; ++d) start.values.set(slot, 0, d, start.keys.get(slot, 0, d));
    const Compare right{bound(start)};
    Case expected = start.unrounded();
    Reference reference;
    ASSERT_TRUE(ok(run(reference, expected.op())));
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      PagedAttention<Host> op = got.op();
      op.value_cache = op.key_cache.slice(4, 0, 512);
      ASSERT_TRUE(ok(run(op)));
      right(expected, got);
    });
  }
}

TEST(paged_attention, refuses_before_anything_is_written) {
  Rng rng(20);
  const Case start = make({.lens = {40, 20}, .spare = 0}, rng);  // 3 + 2 blocks named, 4 table entries of 16
  const index blocks = Case(start).keys.view().extents[0];
  const std::string last = "0.." + std::to_string(blocks - 1);
  const auto refuse = [&](auto change, std::initializer_list<std::string_view> words) {
    Case c = start;
    PagedAttention<Host> op = c.op();
    change(c, op);
    expect_refused(op, words);
    on_every_backend([&](const std::string&, auto run) {
      EXPECT_FALSE(run(op).ok());
      EXPECT_EQ(c.out, start.out);
      EXPECT_EQ(c.lse, start.lse);
    });
  };
  refuse([&](Case& c, auto&) { c.tables.set(5, static_cast<double>(blocks)); },
         {"block_tables[1, 1]", std::to_string(blocks), last});
  refuse([](Case& c, auto&) { c.tables.set(0, -1); }, {"block_tables[0, 0]", "-1"});
  refuse([](Case& c, auto&) { c.lens.set(1, 65); }, {"context_lens[1]", "65", "0..64"});
  refuse([](Case& c, auto&) { c.lens.set(0, -2); }, {"context_lens[0]", "-2"});
  refuse([](Case&, auto& op) { op.q.extents[1] = op.out.extents[1] = op.lse.extents[1] = 3; }, {"q", "3", "2"});
  refuse([](Case&, auto& op) { op.q.extents[2] = 23; }, {"key_cache", "24", "23"});
  refuse([](Case&, auto& op) { op.value_cache.dtype = DType::bf16; }, {"value_cache", "bf16", "f16"});
  Tensor<3> scales(DType::f32, {blocks, 2, 16});
  refuse([&](Case&, auto& op) { op.key_scales = scales; }, {"key_scales", "i8"});
  refuse([](Case&, auto& op) { op.key_scale = 2; }, {"key_scale", "i8"});
  refuse([](Case&, auto& op) { op.value_scale = 2; }, {"value_scale", "i8"});
  refuse([](Case&, auto& op) { op.value_cache.extents[0] -= 1; }, {"value_cache", "dimension 0", last.substr(3)});
  refuse([](Case&, auto& op) { op.value_cache.extents[1] = 1; }, {"value_cache", "dimension 1", "1", "2"});
  refuse([](Case&, auto& op) { op.value_cache.extents[3] = 15; }, {"value_cache", "dimension 3", "15", "16"});
  refuse([](Case&, auto& op) { op.context_lens.dtype = DType::i64; }, {"context_lens", "i64", "i32"});
  refuse([](Case&, auto& op) { op.context_lens.extents[0] = 1; }, {"context_lens", "1", "2"});
  refuse([](Case&, auto& op) { op.block_tables.extents[0] = 1; }, {"block_tables", "1", "2"});
  refuse([](Case&, auto& op) { op.out.dtype = DType::i8; }, {"out", "i8"});
  refuse([](Case&, auto& op) { op.softcap = -1; }, {"softcap", "-1"});
  refuse([](Case&, auto& op) { op.partition = -1; }, {"partition", "-1"});
  refuse([](Case&, auto& op) { op.bias_order = static_cast<BiasOrder>(3); }, {"bias_order", "3", "0..2"});
  refuse([](Case&, auto& op) { op.scale = INFINITY; }, {"scale", "finite"});
  refuse([](Case&, auto& op) { op.block_tables.dtype = DType::i64; }, {"block_tables", "i64", "i32"});
  Tensor<1> three(DType::f32, {3});
  refuse([&](Case&, auto& op) { op.sinks = three; }, {"sinks", "3", "4"});
  refuse([&](Case&, auto& op) { op.alibi_slopes = three; }, {"alibi_slopes", "3", "4"});
  refuse([](Case&, auto& op) { op.out.extents[2] = 8; }, {"out", "8", "24"});
  refuse([](Case&, auto& op) { op.lse.extents[1] = 2; }, {"lse", "[2, 2]", "[2, 4]"});
}

TEST(paged_attention, refuses_half_of_the_scales) {
  Rng rng(46);
  Case c = make({.lens = {40, 20}, .cache = DType::i8, .spare = 0}, rng);
  PagedAttention<Host> op = c.op();
  op.value_scales = {};
  expect_refused(op, {"key_scales", "left out", "value_scales"});
  op = c.op(), op.key_scales.extents[2] = 15;
  expect_refused(op, {"key_scales", "15", "16"});
  op = c.op(), op.value_scales.dtype = DType::f16;
  expect_refused(op, {"value_scales", "f16", "f32"});
  op = c.op(), op.key_scale = 0;
  expect_refused(op, {"key_scale", "0", "positive"});
  op = c.op(), op.value_scale = -1;
  expect_refused(op, {"value_scale", "-1", "positive"});
}

}  // namespace
}  // namespace inlay::test
