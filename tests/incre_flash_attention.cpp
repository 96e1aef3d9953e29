#include <inlay/ops/flash_attention.hpp>

#include "tests/attention/contract_of.hpp"
#include "tests/incre_flash_attention/case.hpp"

namespace inlay::test {
INLAY_RUNS_OF(IncreFlashAttention);

namespace {

// K and V as tensors, and as lists of tensors.
Case case_of(const AttentionCase& problem) {
  Case c(problem);
  if (c.form == 1 && !c.v_inside_k && !c.k.swapped) into_lists(c);
  poison_unused(c);
  return c;
}

struct Incre : ContractOf<Case> {
  Incre() : ContractOf(case_of) {
    name = "decode";
    max_queries = 3, forms = 2;
    split = cpu::decode_split;
    three = {.batch = 2, .queries = 3, .keys = keys_of_three(split), .kv_heads = 2, .group = 2, .dim = 10, .v_dim = 12};
    rising_dim = 16;  // six rows of a kv head: its keys go four side by side (attention/four_rows.hpp)
    groups = {cpu::shared_unit_rows, cpu::shared_unit_rows + 1, 71, cpu::max_rows, cpu::max_rows + 1};
  }
};

const Incre incre;
INSTANTIATE_TEST_SUITE_P(incre_flash_attention, Attention, ::testing::Values(&incre), name_of);
INSTANTIATE_TEST_SUITE_P(incre_flash_attention, AttentionPairs, ::testing::Values(&incre), name_of);

// One head, and keys enough for the NPU backend to ask for estimates, and to cut them for its cores.
TEST(incre_flash_attention, a_long_cache_of_one_head) {
  Rng rng(21);
  for (DType type : {DType::f32, DType::f16})
    for (DType kv : {DType::f16, DType::i8}) {
      const index keys = kv == DType::i8 ? 16600 : 8300;
      Case c = make({.keys = keys, .kv_heads = 1, .group = 4, .dim = 64, .v_dim = 64}, rng, type, kv, DType::f32);
      drift(c, type == DType::f32);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// More rows of a kv head than registers have sums for, beside dims whose steps are no multiple of a tile's rows of
// keys: who asks for the next rows counts those that are left by steps (attention/dot_x4.hpp).
TEST(incre_flash_attention, rows_of_several_tiles_with_uneven_steps) {
  Rng rng(23);
  for (const auto& [kv, dim] : {std::pair<DType, index>{DType::f32, 72},
                                {DType::f32, 96},
                                {DType::f32, 124},
                                {DType::f16, 136},
                                {DType::f16, 192}})
    for (index group : {7, 13}) {
      SCOPED_TRACE(std::to_string(dim) + " dims, " + std::to_string(group) + " heads");
      Case c =
          make({.keys = 50, .kv_heads = 1, .group = group, .dim = dim, .v_dim = dim}, rng, DType::f32, kv, DType::f32);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(incre_flash_attention, no_keys_give_zero) {
  Rng rng(4);
  Case c = make({.batch = 3, .keys = 20, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  c.kv_lens = list_of(DType::i32, {0, 20, 15});
  c.left_padding = true;
  c.padding = 6;  // leaves room for 14 keys
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < got.out.memory.size(); ++i) ASSERT_EQ(got.out.memory.get(i), 0);
    for (index i = 0; i < got.lse.size(); ++i) ASSERT_EQ(got.lse.get(i), -HUGE_VAL);
  });
}

TEST(incre_flash_attention, left_padding_reads_the_slots_it_should) {
  Rng rng(5);
  Case c = make({.keys = 20, .dim = 8, .v_dim = 8}, rng);
  c.kv_lens = Tensor<1>(DType::i32, {1}).fill(1);
  c.left_padding = true;
  for (index padding : {-4, 0, 3, 19}) {
    c.padding = padding;
    on_every_backend([&](const std::string&, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      for (index d = 0; d < 8; ++d)
        ASSERT_EQ(got.out.get(0, 0, 0, d), c.v.get(0, 19 - std::max<index>(padding, 0), 0, d));
    });
  }
}

TEST(incre_flash_attention, agrees_with_flash_attention) {
  Rng rng(9);
  Case c = make({.batch = 2, .queries = 3, .keys = 100, .kv_heads = 2, .group = 3, .dim = 32, .v_dim = 16}, rng);
  c.causal = true;
  Case flash = c;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  ASSERT_TRUE(ok(run(reference, FlashAttention<Host>{.q = flash.q.view(),
                                                     .k = flash.k.view(),
                                                     .v = flash.v.view(),
                                                     .out = flash.out.view(),
                                                     .lse = flash.lse,
                                                     .causal = true})));
  expect_equal(c.out.memory, flash.out.memory);
  expect_equal(c.lse, flash.lse);
}

constexpr index largest = std::numeric_limits<index>::max();

TEST(incre_flash_attention, an_empty_batch_needs_no_workspace) {
  std::vector<float> x(8);
  const IncreFlashAttention<Host> op{.q = {x.data(), {0, 1, 1, 8}},
                                     .k = {x.data(), {0, 4, 1, 8}},
                                     .v = {x.data(), {0, 4, 1, 8}},
                                     .out = {x.data(), {0, 1, 1, 8}}};
  on_every_host_backend([&](const std::string&, auto run) { EXPECT_TRUE(ok(run(op))); });
  Cpu cpu;
  EXPECT_EQ(workspace_bytes(cpu, op), 0u);
}

TEST(incre_flash_attention, padding_and_windows_of_any_size) {
  std::vector<float> q(8, 1), k(4 * 8, 1), v = k, out(8), lse(1);
  std::int64_t lengths[] = {3};
  on_every_host_backend([&](const std::string&, auto run) {
    IncreFlashAttention<Host> op{.q = {q.data(), {1, 1, 1, 8}},
                                 .k = {k.data(), {1, 4, 1, 8}},
                                 .v = {v.data(), {1, 4, 1, 8}},
                                 .out = {out.data(), {1, 1, 1, 8}},
                                 .lse = {lse.data(), {1, 1, 1}},
                                 .kv_lens = {lengths, {1}},
                                 .window_left = largest,
                                 .kv_left_padding = true};
    ASSERT_TRUE(ok(run(op)));
    EXPECT_EQ(out[0], 1);
    for (index padding : {index{2}, index{5}, largest - 1, largest}) {  // more than the slots have: no key is left
      op.kv_padding = padding;
      ASSERT_TRUE(ok(run(op)));
      EXPECT_EQ(out[0], 0) << padding;
      EXPECT_EQ(lse[0], -HUGE_VALF) << padding;
    }
  });
}

// Offsets of heads are whole bytes, backwards too: rounded up they were a byte off.
TEST(incre_flash_attention, heads_in_reverse) {
  constexpr index slots = 5, heads = 3, dim = 8;
  std::vector<float> q(heads * dim, 1), kv(slots * heads * dim), out(heads * dim), reversed = out;
  for (std::size_t i = 0; i < kv.size(); ++i) kv[i] = static_cast<float>(i % 7) - 3;
  on_every_host_backend([&](const std::string&, auto run) {
    IncreFlashAttention<Host> op{.q = {q.data(), {1, 1, heads, dim}},
                                 .k = {kv.data(), {1, slots, heads, dim}},
                                 .v = {kv.data(), {1, slots, heads, dim}},
                                 .out = {out.data(), {1, 1, heads, dim}}};
    ASSERT_TRUE(ok(run(op)));
    op.k = op.v = {kv.data() + (heads - 1) * dim, {1, slots, heads, dim}, {slots * heads * dim, heads * dim, -dim, 1}};
    op.out.data = reversed.data();
    ASSERT_TRUE(ok(run(op)));
    for (index h = 0; h < heads; ++h)
      for (index d = 0; d < dim; ++d) ASSERT_EQ(reversed[(heads - 1 - h) * dim + d], out[h * dim + d]) << h;
  });
}

// A weight of 0 because the score is far behind is not a mask: NaN times 0 is NaN.
TEST(incre_flash_attention, a_visible_scale_of_nan_shows_whatever_its_weight) {
  constexpr index slots = 70, dim = 8, key = 66;
  std::vector<float> q(dim, 1), out(dim), k_scale(slots, 1), v_scale(slots, 1);
  std::vector<std::int8_t> k(slots * dim, 1), v = k;
  std::vector<std::uint8_t> hidden(slots);
  for (index d = 0; d < dim; ++d) k[key * dim + d] = -100;
  v_scale[key] = std::nanf("");
  on_every_host_backend([&](const std::string&, auto run) {
    IncreFlashAttention<Host> op{.q = {q.data(), {1, 1, 1, dim}},
                                 .k = {k.data(), {1, slots, 1, dim}},
                                 .v = {v.data(), {1, slots, 1, dim}},
                                 .out = {out.data(), {1, 1, 1, dim}},
                                 .k_scale = {k_scale.data(), {1, slots, 1, 1}},
                                 .v_scale = {v_scale.data(), {1, slots, 1, 1}},
                                 .scale = 1};
    ASSERT_TRUE(ok(run(op)));
    EXPECT_TRUE(std::isnan(out[0]));
    hidden[key] = 1;
    op.mask = {static_cast<const void*>(hidden.data()), DType::boolean, {1, 1, slots}};
    ASSERT_TRUE(ok(run(op)));
    EXPECT_EQ(out[0], 1);
    hidden[key] = 0;
  });
}

}  // namespace
}  // namespace inlay::test
