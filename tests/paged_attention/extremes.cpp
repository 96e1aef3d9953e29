// What is empty, huge, not finite or far away.
#include <sys/mman.h>

#include "tests/paged_attention/bound.hpp"
#include "tests/support/requirements.hpp"

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
    for (index i = 0; i < start.tables.extents()[1] - 1; ++i)
      start.tables.set(i, static_cast<double>(i));  // no repetition
    for (index j = 0; j < 70; ++j) {
      start.keys.set(start.slot_of(0, j), 0, 0, static_cast<double>(j) / 64);
      for (index d = 0; d < 8; ++d) start.values.set(start.slot_of(0, j), 0, d, static_cast<double>(j + d));
    }
    const index chosen = huge > 0 ? 69 : 0;
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index d = 0; d < 8; ++d) EXPECT_EQ(got.out.get(got.out_at(0, 0, d)), static_cast<double>(chosen + d));
      EXPECT_EQ(got.lse.get(got.lse_at(0, 0)), static_cast<float>(huge * static_cast<double>(chosen) / 64));
    });
  }
}

// The last key of a window that begins off every register: products take whole tiles of rows, and what they write
// behind the scores of the last head must not meet the first head's output.
TEST(paged_attention, nan_in_the_last_key_of_a_window_stays_in_its_head) {
  Rng rng(45);
  for (double bad : {nan, infinity})
    for (Pages pages : all_pages)
      for (index window = 0; window < 16; ++window) {
        SCOPED_TRACE(name(pages));
        Case start = make({.lens = {64}, .q_heads = 3, .kv_heads = 3, .pages = pages}, rng);
        start.keys.set(start.slot_of(0, 63), 2, 5, bad);
        start.extra.window_left = window;
        start.q.fill(0.5);
        on_every_backend([&](const std::string&, auto run) {
          Case got = start;
          ASSERT_TRUE(ok(run(got.op())));
          for (index h = 0; h < 3; ++h)
            for (index d = 0; d < 24; ++d) EXPECT_EQ(std::isnan(got.out.get(got.out_at(0, h, d))), h == 2) << h;
        });
      }
}

// A value that is not finite reaches its own dim of its own heads, and no other: nothing else is multiplied with it.
TEST(paged_attention, values_that_are_not_finite_stay_in_their_dim) {
  Rng rng(44);
  for (Pages pages : all_pages) {
    SCOPED_TRACE(name(pages));
    Case start = make({.lens = {40}, .pages = pages}, rng);
    start.values.set(start.slot_of(0, 39), 1, 23, nan);
    start.values.set(start.slot_of(0, 38), 0, 0, infinity);
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index h = 0; h < 4; ++h)
        for (index d = 0; d < 24; ++d) {
          const double o = got.out.get(got.out_at(0, h, d));
          EXPECT_EQ(std::isnan(o), h >= 2 && d == 23) << h << " " << d;
          EXPECT_EQ(o == infinity, h < 2 && d == 0) << h << " " << d;
        }
    });
  }
}

TEST(paged_attention, offsets_pass_2_31_elements) {
  constexpr index block_size = 16, heads = 2, dim = 16, stride = index{1} << 32;
  constexpr std::size_t bytes = (stride + (1 << 20)) * sizeof(f16);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  INLAY_NEEDS(memory != MAP_FAILED, "address_space", "there are no " + std::to_string(bytes) + " bytes of it");
  f16* const far = static_cast<f16*>(memory) + stride;
  for (index i = 0; i < block_size * heads * dim; ++i) far[i] = f16(static_cast<float>(i % dim));
  const ConstPagedView<> cache =
      flat_cache(ConstView<4>(static_cast<f16*>(memory), {2, block_size, heads, dim}, {stride, heads * dim, dim, 1}));
  const std::vector<float> q(heads * dim, 0.25f);
  const std::int32_t table[] = {1}, length[] = {16};
  on_every_host_backend([&](const std::string&, auto run) {
    std::vector<float> out(heads * dim, -1);
    ASSERT_TRUE(ok(run(PagedAttention<Host>{.q = ConstView<3>(q.data(), {1, heads, dim}),
                                            .k = cache,
                                            .v = cache,
                                            .block_table = ConstView<2>(table, {1, 1}),
                                            .kv_lens = ConstView<1>(length, {1}),
                                            .out = View<3>(out.data(), {1, heads, dim})})));
    for (index i = 0; i < heads * dim; ++i) EXPECT_EQ(out[i], static_cast<float>(i % dim));
  });
  munmap(memory, bytes);
}

TEST(paged_attention, empty_batches) {
  Rng rng(19);
  compare(make({.lens = {}}, rng));
  compare(make({.lens = {0, 0}}, rng));
  Case none = make({.lens = {0, 0}}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case got = none;
    PagedAttention<Host> op = got.op();
    op.block_table.extents[1] = 0;
    ASSERT_TRUE(ok(run(op)));
    for (index b = 0; b < 2; ++b)
      for (index h = 0; h < 4; ++h) {
        EXPECT_EQ(got.lse.get(got.lse_at(b, h)), -infinity);
        for (index d = 0; d < 24; ++d) EXPECT_EQ(got.out.get(got.out_at(b, h, d)), 0);
      }
  });
}

}  // namespace
}  // namespace inlay::test
