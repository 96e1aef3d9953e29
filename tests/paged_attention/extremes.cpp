// What is empty, huge, not finite or far away.
#include <sys/mman.h>

#include "tests/paged_attention/case.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
namespace {

TEST(paged_attention, huge_logits_choose_one_key) {
  Rng rng(10);
  for (double huge : {1e5, -1e5}) {
    Case start =
        make({.lens = {70}, .q_heads = 1, .kv_heads = 1, .key_dim = 1, .value_dim = 8, .cache = DType::f32}, rng);
    start.q.fill(huge);
    start.extra.scale = 1;
    start.extra.partition = 16;
    // Keys 0, 1/64, 2/64, ..: logits are exact and apart by 1562, so all weights but one underflow.
    const index columns = start.tables.extents()[1];
    const auto slot_of = [&](index j) { return static_cast<index>(start.tables.get(j / 16)) * 16 + j % 16; };
    for (index i = 0; i < columns - 1; ++i) start.tables.set(i, static_cast<double>(i));  // no repetition
    for (index j = 0; j < 70; ++j) {
      start.keys.set(slot_of(j), 0, 0, static_cast<double>(j) / 64);
      for (index d = 0; d < 8; ++d) start.values.set(slot_of(j), 0, d, static_cast<double>(j + d));
    }
    const index chosen = huge > 0 ? 69 : 0;
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index d = 0; d < 8; ++d) EXPECT_EQ(got.out.get(d), static_cast<double>(chosen + d));
      EXPECT_EQ(got.lse.get(0), static_cast<float>(huge * static_cast<double>(chosen) / 64));
    });
  }
}

TEST(paged_attention, sinks_of_an_empty_context_and_without_a_sink) {
  Rng rng(11);
  Case start = make({.lens = {0, 5}}, rng);
  start.sinks = random_sinks(4, rng);
  start.sinks.set(0, 1.5);
  start.sinks.set(1, -infinity);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start, none = start;
    none.sinks = {};
    ASSERT_TRUE(ok(run(got.op())));
    ASSERT_TRUE(ok(run(none.op())));
    for (index k = 0; k < 4 * 24; ++k) EXPECT_EQ(got.out.get(k), 0);
    EXPECT_EQ(got.lse.get(0), 1.5);
    EXPECT_EQ(got.lse.get(1), -infinity);
    for (index d = 0; d < 24; ++d) EXPECT_EQ(got.out.get(5 * 24 + d), none.out.get(5 * 24 + d));  // sink -inf
  });
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
    start.key_scales.fill(1);
    start.value_scales.fill(1);
    start.extra.scale = 1;
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < got.out.size(); ++k) ASSERT_EQ(got.out.get(k), -128);
      // log 256 is lost beside 576 * 128, whose f32 neighbours lie 2^-7 apart
      EXPECT_NEAR(got.lse.get(0), 576.0 * 128 + std::log(256.0), 0x1p-8);
    });
  }
}

TEST(paged_attention, nan_and_infinity_stay_in_their_head) {
  Rng rng(18);
  for (double bad : {nan, infinity}) {
    Case start = make({.lens = {40}, .pages = Pages::head_major}, rng);
    start.keys.set(static_cast<index>(start.tables.get(0)) * 16 + 3, 1, 2, bad);
    start.q.fill(0.5);
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < 4 * 24; ++k) EXPECT_EQ(std::isnan(got.out.get(k)), k >= 2 * 24) << k;
    });
  }
}

// Blocks 2^32 elements apart; a few pages are touched.
TEST(paged_attention, offsets_pass_2_31_elements) {
  constexpr index block_size = 16, heads = 2, dim = 16, stride = index{1} << 32;
  constexpr std::size_t bytes = (stride + (1 << 20)) * sizeof(f16);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::printf("no %zu bytes of address space here: offsets beyond 2^31 were not tried\n", bytes);
    return;
  }
  f16* const far = static_cast<f16*>(memory) + stride;
  for (index i = 0; i < block_size * heads * dim; ++i) far[i] = f16(static_cast<float>(i % dim));
  const ConstPagedView<> cache =
      flat_cache(ConstView<4>(static_cast<f16*>(memory), {2, block_size, heads, dim}, {stride, heads * dim, dim, 1}));
  const std::vector<float> q(heads * dim, 0.25f);
  const std::int32_t table[] = {1}, length[] = {16};
  on_every_host_backend([&](const std::string&, auto run) {
    std::vector<float> out(heads * dim, -1);
    ASSERT_TRUE(ok(run(PagedAttention<Host>{.q = ConstView<3>(q.data(), {1, heads, dim}),
                                            .key_cache = cache,
                                            .value_cache = cache,
                                            .block_tables = ConstView<2>(table, {1, 1}),
                                            .context_lens = ConstView<1>(length, {1}),
                                            .out = View<3>(out.data(), {1, heads, dim})})));
    for (index i = 0; i < heads * dim; ++i) EXPECT_EQ(out[i], static_cast<float>(i % dim));
  });
  munmap(memory, bytes);
}

TEST(paged_attention, subnormals) {
  Rng rng(30);
  for (DType type : {DType::f32, DType::bf16})
    for (bool small_values : {false, true}) {
      SCOPED_TRACE(small_values ? "small values" : "small keys");
      Case c = make({.lens = {0, 1, 7, 70}, .cache = type, .q = type}, rng);
      Tensor<5>& small = (small_values ? c.values : c.keys).memory;
      for (index k = 0; k < small.size(); ++k) small.set(k, small.get(k) * smallest_normal());  // poison stays poison
      const Bound limit = bound(c);
      with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
        // For each of 70 tokens an operand, a product and a sum, which round to the least number or are lost.
        expect_close(
            got.out, expected.out, limit.out, [&](index) { return limit.value; },
            3 * 70 * (lost + underflow(DType::f32)));
        expect_close(got.lse, expected.lse, limit.lse, [&](index k) { return 1 + std::abs(expected.lse.get(k)); });
      });
    }
}

TEST(paged_attention, empty_batches) {
  Rng rng(19);
  compare(make({.lens = {}}, rng));
  compare(make({.lens = {0, 0}}, rng));
  Case none = make({.lens = {0, 0}}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case got = none;
    PagedAttention<Host> op = got.op();
    op.block_tables.extents[1] = 0;
    ASSERT_TRUE(ok(run(op)));
    for (index k = 0; k < got.out.size(); ++k) EXPECT_EQ(got.out.get(k), 0);
  });
}

}  // namespace
}  // namespace inlay::test
