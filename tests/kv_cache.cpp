#include "cpu_kernels/kv_cache.hpp"

#include "tests/kv_cache/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
INLAY_RUNS_OF(ReshapeAndCache);
INLAY_RUNS_OF(CopyBlocks);

namespace {

using cpu::kv::part_size;
using cpu::kv::tokens_together;

TEST(kv_cache, reshape_dims_and_types) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType cache : {DType::f32, DType::f16, DType::bf16, DType::i8})
      for (Pages pages : all_pages)
        for (index dim : {1, 15, 17, 33}) {
          SCOPED_TRACE(name(pages));
          ASSERT_NO_FATAL_FAILURE(
              compare(make(type, cache, pages, {.tokens = 4, .block_size = 3, .key_dim = dim, .value_dim = dim + 1},
                           layouts[dim % 3], rng)));
        }
  for (index dim : head_dims)
    for (DType cache : {DType::f16, DType::i8})
      ASSERT_NO_FATAL_FAILURE(compare(make(DType::f32, cache, Pages::flat,
                                           {.tokens = 3, .block_size = 16, .key_dim = dim, .value_dim = 64}, {}, rng)));
}

TEST(kv_cache, reshape_blocks_and_counts) {
  Rng rng(2);
  for (Pages pages : all_pages)
    for (index block_size : {1, 3, 5, 16, 32, 256})
      for (index tokens : {0, 1, 7, 42}) {
        SCOPED_TRACE(name(pages));
        ASSERT_NO_FATAL_FAILURE(
            compare(make(DType::f32, DType::f16, pages, {.tokens = tokens, .block_size = block_size}, {}, rng)));
      }
}

// Dims around what is converted at a time, in pieces that lie across the cuts.
TEST(kv_cache, reshape_pieces_of_any_length) {
  Rng rng(11);
  for (DType cache : {DType::f32, DType::f16, DType::i8})
    for (index x :
         {index{1}, index{3}, index{4}, index{8}, index{16}, index{24}, part_size - 1, part_size, part_size + 1})
      for (index groups : {1, 2, 3, 23}) {
        if (x * groups > 3 * part_size && groups != 23) continue;
        SCOPED_TRACE(describe("x", x, "groups", groups));
        ASSERT_NO_FATAL_FAILURE(
            compare(make(DType::f32, cache, Pages::pieces,
                         {.tokens = 3, .block_size = 4, .key_dim = x * groups, .value_dim = x, .x = x}, {}, rng)));
      }
  for (index dim : {part_size - 1, part_size, part_size + 1, 2 * part_size, 2 * part_size + 1})
    ASSERT_NO_FATAL_FAILURE(compare(make(DType::bf16, DType::i8, Pages::vllm,
                                         {.tokens = 3, .block_size = 4, .key_dim = 16, .value_dim = dim}, {}, rng)));
}

TEST(kv_cache, reshape_keys_and_values_in_layouts_of_their_own) {
  Rng rng(12);
  for (Pages keys : all_pages)
    for (Pages values : all_pages) {
      SCOPED_TRACE(name(keys) + " keys, " + name(values) + " values");
      ASSERT_NO_FATAL_FAILURE(compare(
          make(DType::f16, DType::i8, keys,
               {.tokens = 9, .block_size = 4, .heads = 3, .key_dim = 16, .value_dim = 24, .value_pages = values},
               layouts[1], rng)));
    }
}

// The orders of slots, of tokens that fill several runs: who writes what at once, and who stays.
std::vector<std::vector<index>> slot_orders(index tokens) {
  std::vector<std::vector<index>> orders(8);
  for (index t = 0; t < tokens; ++t) {
    orders[0].push_back(t);                                         // ascending
    orders[1].push_back(2 * t + 1);                                 // ascending, with slots left out
    orders[2].push_back(tokens - 1 - t);                            // descending
    orders[3].push_back((t + 1) / 2);                               // each twice, across the runs' ends too
    orders[4].push_back(t < tokens / 2 ? t : t - tokens / 2);       // two runs over the same slots
    orders[5].push_back(t % 3 == 1 ? -1 - t : t % 7 == 0 ? 0 : t);  // 0 again and again, padding between
    orders[6].push_back(t % 4 == 0 ? std::numeric_limits<std::int64_t>::min() : t);
    orders[7].push_back(t + 1 == tokens ? 0 : t);  // the last token comes back to the first slot
  }
  return orders;
}

TEST(kv_cache, slots_in_every_order) {
  Rng rng(3);
  for (DType cache : {DType::f32, DType::f16, DType::i8})
    for (Pages pages : {Pages::flat, Pages::vllm})
      for (index tokens :
           {index{2}, tokens_together - 1, tokens_together, tokens_together + 1, 3 * tokens_together + 2})
        for (const std::vector<index>& order : slot_orders(tokens)) {
          Case c =
              make(DType::f32, cache, pages,
                   {.tokens = 2 * tokens + 1, .block_size = 16, .heads = 3, .key_dim = 18, .value_dim = 5}, {}, rng);
          c.fused = Tensor<3>(DType::f32, {tokens, 4, 24}).uniform(rng);
          c.slots = list_of(DType::i64, order);
          SCOPED_TRACE(describe(name(pages), "slots", order[0], order[1], "tokens", tokens));
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

TEST(kv_cache, slots_that_are_all_padding) {
  Rng rng(13);
  Case c = make(DType::f32, DType::i8, Pages::flat, {.tokens = 40, .block_size = 16}, {}, rng);
  c.slots.fill(-1);
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

// The first slot and the last, the first head's first dim and the last one's last.
TEST(kv_cache, the_ends_of_a_pool) {
  Rng rng(14);
  for (Pages pages : all_pages)
    for (DType cache : {DType::f32, DType::bf16, DType::i8}) {
      Case c = make(DType::f32, cache, pages, {.tokens = 2, .block_size = 5, .heads = 3, .key_dim = 16}, {}, rng);
      c.slots.set(0, static_cast<double>(slot_count(c.keys.view()) - 1));
      c.slots.set(1, 0);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// The drawings of core/paged_kv.hpp, with an address worked out by hand for each.
TEST(kv_cache, layouts_are_those_of_the_drawings) {
  constexpr index blocks = 3, block_size = 4, heads = 2, dim = 16, x = 8, slot = 9, h = 1, d = 13;
  std::vector<f16> keys(blocks * block_size * heads * dim), values(keys.size());
  const index block = slot / block_size, t = slot % block_size;
  const View<4> flat(keys.data(), {blocks, block_size, heads, dim});
  EXPECT_EQ(paged_offset(flat_cache(flat), slot, h, d), ((block * block_size + t) * heads + h) * dim + d);
  const View<4> major(keys.data(), {blocks, heads, block_size, dim});
  EXPECT_EQ(paged_offset(head_major_cache(major), slot, h, d), ((block * heads + h) * block_size + t) * dim + d);
  const View<5> vllm(keys.data(), {blocks, heads, dim / x, block_size, x});
  EXPECT_EQ(vllm_key_x(DType::f16), x);
  EXPECT_EQ(paged_offset(vllm, slot, h, d), (((block * heads + h) * (dim / x) + d / x) * block_size + t) * x + d % x);
  const View<4> minor(values.data(), {blocks, heads, dim, block_size});
  EXPECT_EQ(paged_offset(slot_minor_cache(minor), slot, h, d), ((block * heads + h) * dim + d) * block_size + t);
  const View<3> scales(keys.data(), {blocks, heads, block_size});
  EXPECT_EQ(paged_offset(scales_cache(scales), slot, h, 0), (block * heads + h) * block_size + t);

  // And the reference writes there.
  std::vector<float> source(heads * dim);
  std::iota(source.begin(), source.end(), 0.0f);
  const std::int64_t slots[] = {slot};
  const ConstView<3> token(source.data(), {1, heads, dim});
  Reference reference;
  ASSERT_TRUE(ok(run(reference, ReshapeAndCache<Host>{.k = token,
                                                      .v = token,
                                                      .k_cache = vllm,
                                                      .v_cache = slot_minor_cache(minor),
                                                      .slot_mapping = ConstView<1>(slots, {1})})));
  for (index e = 0; e < dim; ++e) {
    EXPECT_EQ(keys[(((block * heads + h) * (dim / x) + e / x) * block_size + t) * x + e % x], h * dim + e);
    EXPECT_EQ(values[((block * heads + h) * dim + e) * block_size + t], h * dim + e);
  }
}

TEST(kv_cache, keys_alone) {
  Rng rng(4);
  for (DType cache : {DType::bf16, DType::i8}) {
    const Case start =
        make(DType::bf16, cache, Pages::flat, {.tokens = 5, .block_size = 16, .heads = 1, .key_dim = 576}, {}, rng);
    Case right = written(start);
    right.values = start.values, right.v_scale = start.v_scale;
    const auto alone = [&](auto run) {
      Case got = start;
      ReshapeAndCache<Host> op = got.op();
      op.v = {};
      op.v_cache = {};
      op.v_scale = {};
      ASSERT_TRUE(ok(run(op)));
      expect_same_memory(got, right);
    };
    on_every_backend([&](const std::string&, auto run) { alone(run); });
    alone([](const auto& op) {
      Reference reference;
      return run(reference, op);
    });
  }
}

TEST(kv_cache, refuses_before_anything_is_written) {
  Rng rng(9);
  const Case start =
      make(DType::f32, DType::f16, Pages::flat, {.tokens = 4, .block_size = 8, .key_dim = 16, .value_dim = 16}, {},
           rng);  // 3 blocks: 24 slots
  Case c = start;
  c.slots.set(3, 24);
  expect_refused(c.op(), {"slot_mapping[3]", "24", "negative"});
  on_every_backend([&](const std::string&, auto run) {
    EXPECT_FALSE(run(c.op()).ok());
    expect_equal(c.keys.memory, start.keys.memory);
  });
  c = start;
  const Refused refused(c.op());
  const PagedView<> cache = c.op().k_cache;
  Tensor<3> scales(DType::f32, {cache.extents[0], cache.extents[1], cache.extents[3]});
  refused([&](auto& op) { op.k_scale = scales; }, {"k_scale", "i8"});
  refused([&](auto& op) { op.v = {}; }, {"v", "left out"});
  refused([&](auto& op) { op.k.extents[2] = 15; }, {"k_cache", "16", "15"});
  refused([&](auto& op) { op.v_cache.extents[3] = 4; }, {"v_cache", "4", "8"});
  refused([&](auto& op) { op.slot_mapping.dtype = DType::i32; }, {"slot_mapping", "i32", "i64"});
  refused([&](auto& op) { op.v_cache = op.k_cache; }, {"k_cache", "overlaps", "v_cache"});
  Case quantized = make(DType::f32, DType::i8, Pages::flat, {.tokens = 4, .block_size = 8}, {}, rng);
  const Refused refused_codes(quantized.op());
  refused_codes([](auto& op) { op.v_scale = {}; }, {"v_scale", "i8"});
}

}  // namespace
}  // namespace inlay::test
