#include "tests/attention/contract_of.hpp"
#include "tests/flash_attention/case.hpp"

namespace inlay::test {
INLAY_RUNS_OF(FlashAttention);

namespace {

// As it is; causal as a window; a mask of pairs as bits; keys in blocks.
enum Form { plain_form, window_form, bits_form, paged_form, form_count };

Case case_of(const AttentionCase& problem) {
  Case c(problem);
  c.spoil_unused();
  const auto [batch, keys, kv_heads, dim] = c.k.view_extents();
  const index queries = c.q.view_extents()[1];
  if (c.form == window_form && c.causal) c.causal = false, c.right = 0;
  if (c.form == bits_form && c.mask.present() && c.mask.extents() == std::array{batch, index{1}, queries, keys})
    mask_as_bits(c);
  if (c.form == paged_form && keys > 0) {
    Rng rng(static_cast<std::uint64_t>(keys));
    page(c, std::array{24, 7, 100}[static_cast<std::size_t>(keys % 3)], rng);
  }
  return c;
}

class Flash : public ContractOf<Case> {
 public:
  explicit Flash(AttentionCompute compute)
      : ContractOf([compute](const AttentionCase& problem) {
          const Case c = case_of(problem);
          return compute == AttentionCompute::bf16_products ? in_bf16(c) : c;
        }) {
    name = compute == AttentionCompute::bf16_products ? "bf16_products" : "exact_float";
    max_queries = 1 << 20, forms = form_count, masks_of_heads = true;
    split = cpu::prompt_split;
    three = {.batch = 2, .queries = 3, .keys = keys_of_three(split), .kv_heads = 1, .group = 2, .dim = 6, .v_dim = 5};
    rising_dim = 6;
    groups = {7, cpu::shared_unit_rows / 3, cpu::shared_unit_rows / 3 + 1, cpu::max_rows / 3, 71};
  }
};

const Flash exact(AttentionCompute::exact_float), in_pairs(AttentionCompute::bf16_products);
INSTANTIATE_TEST_SUITE_P(flash_attention, Attention, ::testing::Values(&exact), name_of);
INSTANTIATE_TEST_SUITE_P(flash_attention, AttentionPairs, ::testing::Values(&exact, &in_pairs), name_of);

TEST(flash_attention, queries_and_keys_around_the_tiles) {
  Rng rng(2);
  for (index group : {1, 3, 7, 8})
    for (const auto& [queries, keys] : {std::pair<index, index>{1, 0},
                                        {0, 5},
                                        {1, 1},
                                        {1, cpu::key_tile - 1},
                                        {2, cpu::key_tile},
                                        {3, cpu::key_tile + 1},
                                        {31, 31},
                                        {cpu::max_rows / 3 + 1, cpu::max_rows + 1},
                                        {cpu::key_tile + 1, 2 * cpu::key_tile + 1},
                                        {cpu::max_rows + 1, 5},
                                        {cpu::max_rows / 8, 3 * cpu::key_tile - 1}}) {
      Case c = make(
          {.batch = 2, .queries = queries, .keys = keys, .kv_heads = 1, .group = group, .dim = 20, .v_dim = 24}, rng);
      for (bool causal : {false, true}) {
        c.causal = causal;
        c.left = (queries + keys) % 3 == 0 ? 7 : -1;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
    }
}

// Parts of a unit's rows take as many keys of their last tiles as they see: those that end in, at and behind a part and
// a register of keys, behind keys that all see, under windows on both sides.
TEST(flash_attention, rows_around_the_parts) {
  Rng rng(22);
  for (index rows : {cpu::shared_unit_rows + 1, 3 * cpu::part_rows - 1, 3 * cpu::part_rows, 3 * cpu::part_rows + 1,
                     cpu::max_rows + cpu::part_rows + 1})
    for (index group : {index{1}, index{5}, cpu::part_rows, cpu::part_rows + 1})
      for (index behind : {index{0}, index{1}, cpu::lane_pad - 1, cpu::key_tile}) {
        const index queries = rows / group + 1;
        Case c =
            make({.queries = queries, .keys = queries + behind, .kv_heads = 1, .group = group, .dim = 20, .v_dim = 24},
                 rng, DType::f32, kv_dtypes[static_cast<std::size_t>(behind % 4)]);
        c.causal = group != 5;
        if (group == 5) c.right = 3;
        if (behind == 1) c.left = 9;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// Every number of rows that share a square of keys in registers, and the first that do not; of a kv head, where
// heads share a task and where they do not. Keys end in each part of a pair of squares.
TEST(flash_attention, rows_around_the_squares) {
  Rng rng(16);
  for (index rows = 1; rows <= cpu::max_square_rows + 1; ++rows)
    for (index keys : {rows, cpu::lane_pad + rows, cpu::key_tile - rows, cpu::key_tile + cpu::lane_pad + rows}) {
      Case c = make({.queries = rows % 3 ? 1 : 3,
                     .keys = keys,
                     .kv_heads = 2,
                     .group = rows % 3 ? rows : rows / 3,
                     .dim = 15 + rows,
                     .v_dim = 33 - rows},
                    rng, DType::f32, kv_dtypes[static_cast<std::size_t>(keys % 4)]);
      c.causal = rows % 2;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
  for (index rows : {cpu::shared_unit_rows, cpu::shared_unit_rows + 1, cpu::max_rows, cpu::max_rows + 1}) {
    Case c = make({.queries = rows, .keys = rows + 5, .kv_heads = 3, .group = 1, .dim = 18, .v_dim = 17}, rng,
                  DType::f32, DType::f16);
    c.left = 9;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Scales that are one a block, or one a place in it.
TEST(flash_attention, int8_scales_of_blocks) {
  Rng rng(20);
  for (int turn = 0; turn < 4; ++turn) {
    Case c = make({.batch = 2, .queries = 3, .keys = 70, .kv_heads = 2, .group = 2, .dim = 9, .v_dim = 10}, rng,
                  DType::f32, DType::i8);
    page(c, 16, rng);
    const auto [blocks, block, heads, dim] = c.k.view_extents();
    const std::array<index, 4> of_blocks{blocks, 1, turn < 2 ? heads : 1, 1}, of_places{1, block, heads, 1};
    c.k_scale = Tensor<4>(DType::f32, turn % 2 ? of_blocks : of_places).uniform(rng, 0.002, 0.008);
    c.v_scale = Tensor<4>(DType::f32, turn % 2 ? of_places : of_blocks).uniform(rng, 0.002, 0.008);
    if (turn < 2) c.k_offset = Tensor<4>(DType::f32, of_blocks).uniform(rng, -20, 20);
    if (turn > 0) c.v_offset = Tensor<4>(DType::f32, of_places).uniform(rng, -20, 20);
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Rows [begin, end) of a sequence of queries as a call of their own, over the keys up to its end. One query, a few and
// many are multiplied in different ways.
void chunks_give_the_bits_of(Case& whole, index queries, bool on_devices) {
  whole.causal = true;
  const auto test = [&](const std::string&, auto run) {
    Case expected = whole;
    ASSERT_TRUE(ok(run(expected.op())));
    Case got = whole;
    for (index begin = 0, step = 1; begin < queries; begin += step, step = step * 3 + 1) {
      const index end = std::min<index>(begin + step, queries);
      FlashAttention<Host> op = got.op();
      op.q = op.q.slice(1, begin, end - begin);
      op.out = op.out.slice(1, begin, end - begin);
      op.lse = op.lse.slice(1, begin, end - begin);
      op.k = op.k.slice(1, 0, end);
      op.v = op.v.slice(1, 0, end);
      ASSERT_TRUE(ok(run(op)));
    }
    expect_equal(got.out.memory, expected.out.memory, {.nan = true});
    expect_equal(got.lse, expected.lse, {.nan = true});
  };
  for (Cpu& cpu : cpus()) {
    if (cpu.parallel().width != 3) continue;  // compare() has shown that all widths give the same bits
    if (!on_backend(test, cpu, name(cpu))) return;
  }
  if (!on_devices) return;
  on_every_device(test);
  if (!::testing::Test::HasFatalFailure()) on_every_npu(test);
}

TEST(flash_attention, chunks_give_the_bits_of_the_whole) {
  Rng rng(4);
  constexpr index tokens = cpu::prompt_split + 152;
  Case whole = make({.queries = tokens, .keys = tokens, .kv_heads = 1, .group = 3, .dim = 8, .v_dim = 8}, rng,
                    DType::f32, DType::f16);
  whole.alibi = Tensor<1>(DType::f32, {3}).fill(0.01);
  chunks_give_the_bits_of(whole, tokens, false);
}

TEST(flash_attention, chunks_of_every_cache_give_the_bits_of_the_whole) {
  Rng rng(15);
  for (DType kv : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    SCOPED_TRACE(describe(kv));
    Case whole =
        make({.queries = 150, .keys = 150, .kv_heads = 3, .group = 4, .dim = 40, .v_dim = 24}, rng, DType::f32, kv);
    whole.left = 90;
    chunks_give_the_bits_of(whole, 150, true);
    whole.compute = AttentionCompute::bf16_products;
    chunks_give_the_bits_of(whole, 150, false);
  }
}

// So many heads that two rows read K of half a tile before the next: pairs of keys stay whole in a window that begins
// at an odd key.
TEST(flash_attention, two_rows_of_many_heads_have_the_bits_of_the_whole) {
  Rng rng(21);
  constexpr index tokens = 90, heads = 96, dim = 64, first = 58;
  static_assert(heads / 6 * dim * sizeof(f16) * cpu::key_tile == 2 * cpu::kv_chunk_bytes);  // three threads cut in six
  for (auto compute : {AttentionCompute::exact_float, AttentionCompute::bf16_products}) {
    Case whole = make({.queries = tokens, .keys = tokens, .kv_heads = heads, .group = 1, .dim = dim, .v_dim = 16}, rng,
                      DType::f32, DType::f16);
    whole.causal = true;
    whole.left = 33;
    whole.compute = compute;
    on_every_cpu([&](const std::string&, auto run) {
      Case expected = whole, got = whole;
      ASSERT_TRUE(ok(run(expected.op())));
      got = expected;
      FlashAttention<Host> op = got.op();
      op.q = op.q.slice(1, first, 2), op.out = op.out.slice(1, first, 2), op.lse = op.lse.slice(1, first, 2);
      op.k = op.k.slice(1, 0, first + 2), op.v = op.v.slice(1, 0, first + 2);
      for (index h = 0; h < heads; ++h) got.out.set(0, first, h, 0, nan), got.out.set(0, first + 1, h, 15, nan);
      ASSERT_TRUE(ok(run(op)));
      expect_equal(got.out.memory, expected.out.memory);
      expect_equal(got.lse, expected.lse);
    });
  }
}

// The rows before the key that they do not see are those of chunks that end before it.
TEST(flash_attention, chunks_give_the_bits_of_the_whole_where_values_are_not_finite) {
  constexpr index tokens = 70;
  for (const bool windowed : {false, true})
    for (double bad : {nan, HUGE_VAL}) {
      SCOPED_TRACE(describe(windowed, bad));
      Rng rng(19);
      Case whole = make({.queries = tokens, .keys = tokens, .kv_heads = 2, .group = 3, .dim = 40, .v_dim = 24}, rng,
                        DType::f32, DType::f16);
      if (windowed) whole.left = 20;
      whole.v.set(0, 41, 1, 5, bad);
      chunks_give_the_bits_of(whole, tokens, true);
      whole.compute = AttentionCompute::bf16_products;
      chunks_give_the_bits_of(whole, tokens, false);
    }
}

}  // namespace
}  // namespace inlay::test
