#include <inlay/core/online_softmax.hpp>

#include <Eigen/Core>

#include "tests/flash_attention/case.hpp"

namespace inlay::test {
namespace {

TEST(flash_attention, head_dims) {
  Rng rng(1);
  std::vector<std::pair<index, index>> dims;
  for (index dim : head_dims) dims.push_back({dim, dim});
  // FLASH_ATTN_EXT of ggml, and MLA's.
  for (const auto& pair : {std::pair<index, index>{40, 40}, {72, 72}, {192, 128}, {320, 256}, {576, 512}, {1, 7}})
    dims.push_back(pair);
  int turn = 0;
  for (const auto& [dim, v_dim] : dims) {
    const DType type = float_types[turn % 3], kv = std::array{DType::f32, DType::f16, DType::bf16, DType::i8}[turn % 4];
    Case c = make({.queries = 3, .keys = 67, .kv_heads = 2, .group = 1 + turn % 3, .dim = dim, .v_dim = v_dim}, rng,
                  type, kv, layouts[turn % 3], turn % 2);
    c.causal = turn % 2;
    ++turn;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(flash_attention, queries_and_keys_around_the_tiles) {
  Rng rng(2);
  for (index group : {1, 3, 7, 8})
    for (const auto& [queries, keys] : {std::pair<index, index>{1, 0},
                                        {0, 5},
                                        {1, 1},
                                        {1, 63},
                                        {2, 64},
                                        {3, 65},
                                        {31, 31},
                                        {33, 97},
                                        {65, 129},
                                        {97, 5},
                                        {12, 191}}) {
      Case c = make(
          {.batch = 2, .queries = queries, .keys = keys, .kv_heads = 1, .group = group, .dim = 20, .v_dim = 24}, rng);
      for (bool causal : {false, true}) {
        c.causal = causal;
        c.left = (queries + keys) % 3 == 0 ? 7 : -1;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
    }
}

// Bits of a sequence, one behind the other; some queries see nothing.
void add_packed_mask(Case& c, const std::vector<index>& queries, const std::vector<index>& keys, Rng& rng) {
  std::vector<index> begins{0};
  for (std::size_t b = 0; b < queries.size(); ++b) begins.push_back(begins.back() + (queries[b] * keys[b] + 7) / 8 + b);
  c.packed_mask = Tensor<1>(DType::u8, {begins.back()});
  c.packed_mask.integers(rng, 0, 255);
  c.mask_indptr = list_of(DType::i32, begins);
}

// Every feature with every other, drawn at random.
TEST(flash_attention, random_combinations) {
  Rng rng(3);
  const auto draw = [&](index low, index high) { return std::uniform_int_distribution<index>(low, high)(rng); };
  const auto chance = [&](int of) { return draw(1, of) == 1; };
  for (int turn = 0; turn < 120; ++turn) {
    const index batch = draw(1, 3), heads = draw(1, 3), group = draw(1, 4), dim = draw(1, 40), v_dim = draw(1, 40);
    std::vector<index> queries(batch), keys(batch);
    const bool ragged_q = chance(2), ragged_kv = chance(3), paged = !ragged_kv && chance(2);
    index total_q = 0, total_kv = 0, most_q = 0, most_kv = 1;
    for (index b = 0; b < batch; ++b) {
      queries[b] = ragged_q || b == 0 ? draw(0, 40) : queries[0];
      keys[b] = draw(0, 150);
      total_q += queries[b], total_kv += keys[b];
      most_q = std::max(most_q, queries[b]), most_kv = std::max(most_kv, keys[b]);
    }
    const DType type = float_types[draw(0, 2)];
    const DType kv = std::array{DType::f32, DType::f16, DType::bf16, DType::i8}[draw(0, 3)];
    const bool swap = chance(2);
    const Layout layout = layouts[draw(0, 2)];
    Case c = make({.kv_heads = heads, .group = group, .dim = dim, .v_dim = v_dim}, rng);
    SCOPED_TRACE(describe("turn", turn));
    const index extra = ragged_q ? 2 : 0;  // rows behind the last sequence stay as they are
    const std::array<index, 2> q_rows = ragged_q ? std::array<index, 2>{1, total_q + extra} : std::array{batch, most_q};
    const index block = draw(1, 20), blocks_each = (most_kv + block - 1) / block, blocks = batch * blocks_each;
    const std::array<index, 2> kv_rows = paged       ? std::array{blocks, block}
                                         : ragged_kv ? std::array<index, 2>{1, total_kv}
                                                     : std::array{batch, most_kv};
    c.q = {type, {q_rows[0], q_rows[1], heads * group, dim}, layout, swap};
    c.out = {type, {q_rows[0], q_rows[1], heads * group, v_dim}, layout, swap};
    c.k = {kv, {kv_rows[0], kv_rows[1], heads, dim}, layout, swap};
    c.v = {kv, {kv_rows[0], kv_rows[1], heads, v_dim}, layout, swap};
    c.lse = {DType::f32, {q_rows[0], q_rows[1], heads * group}};
    c.q.memory.uniform(rng);
    fill_kv(c.k.memory, rng);
    fill_kv(c.v.memory, rng);
    c.out.memory.poison();
    c.lse.poison();
    c.longest = most_kv;
    const auto indptr = [](const std::vector<index>& lengths) {
      std::vector<index> begins{0};
      for (index length : lengths) begins.push_back(begins.back() + length);
      return begins;
    };
    if (ragged_q) c.q_indptr = list_of(chance(2) ? DType::i32 : DType::i64, indptr(queries));
    if (ragged_kv) c.kv_indptr = list_of(DType::i32, indptr(keys));
    if (!ragged_kv) c.kv_lens = list_of(chance(2) ? DType::i32 : DType::i64, keys);
    if (paged) {
      c.table = {DType::i32, {batch, blocks_each}};
      std::vector<index> order(blocks);
      for (index i = 0; i < blocks; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), rng);
      for (index i = 0; i < blocks; ++i) c.table.set(i, static_cast<double>(order[i]));
    }
    if (chance(3)) c.q_start = Tensor<1>(DType::i32, {batch}).integers(rng, -3, 60);
    if (chance(3)) {
      c.bias = {float_types[draw(0, 2)],
                {chance(2) ? batch : 1, chance(2) ? heads * group : 1, chance(2) ? most_q : 1, most_kv},
                layout};
      c.bias.uniform(rng);
      for (index i = 0; i < c.bias.size() / 9; ++i) c.bias.set(draw(0, c.bias.size() - 1), -HUGE_VAL);
    }
    if (chance(3)) {
      c.mask = {DType::boolean,
                {chance(2) ? batch : 1, chance(2) ? heads * group : 1, chance(2) ? most_q : 1, most_kv},
                layout};
      c.mask.integers(rng, 0, 1);
    }
    if (chance(4)) add_packed_mask(c, queries, keys, rng);
    if (chance(4)) c.alibi = alibi_slopes(heads * group);
    if (chance(4)) c.sinks = random_sinks(heads * group, rng);
    c.causal = chance(2);
    c.left = chance(3) ? draw(0, 70) : -1;
    c.right = chance(3) ? draw(0, 70) : -1;
    c.softcap = chance(4) ? 3.0f : 0.0f;
    c.order = bias_orders[draw(0, 2)];
    c.scale = chance(3) ? 0.25f : 0.0f;
    if (kv == DType::i8) {
      const index kind = draw(0, 2);  // tensor, channel, token
      const auto quant = [&](index width) {
        return kind == 0   ? Tensor<4>(DType::f32, {1, 1, 1, 1})
               : kind == 1 ? Tensor<4>(DType::f32, {1, 1, heads, width})
                           : Tensor<4>(DType::f32, {kv_rows[0], kv_rows[1], chance(2) ? heads : 1, 1}, layout);
      };
      c.k_scale = quant(dim).uniform(rng, 0.002, 0.008);
      c.v_scale = quant(v_dim).uniform(rng, 0.002, 0.004);
      if (chance(2)) {
        c.k_offset = quant(dim).uniform(rng, -20, 20);
        c.v_offset = quant(v_dim).uniform(rng, -20, 20);
      }
    }
    c.magnitude = 0.3 * static_cast<double>(dim) * (c.scale > 0 ? c.scale : 1 / std::sqrt(static_cast<double>(dim))) +
                  1 + (c.alibi.present() ? 100 : 0);
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Rows [begin, end) of a sequence of queries as a call of their own, over the keys up to its end. One query, a few and
// many are multiplied in different ways.
void chunks_give_the_bits_of(Case& whole, index queries) {
  whole.causal = true;
  for (const Cpu& cpu : cpus()) {
    if (cpu.parallel().width != 2) continue;  // compare() has shown that all widths give the same bits
    SCOPED_TRACE(name(cpu));
    Case expected = whole;
    ASSERT_TRUE(ok(run_with_scratch(cpu, expected.op())));
    Case got = whole;
    for (index begin = 0, step = 1; begin < queries; begin += step, step = step * 3 + 1) {
      const index end = std::min<index>(begin + step, queries);
      FlashAttention<Host> op = got.op();
      op.q = op.q.slice(1, begin, end - begin);
      op.out = op.out.slice(1, begin, end - begin);
      op.lse = op.lse.slice(1, begin, end - begin);
      op.k = op.k.slice(1, 0, end);
      op.v = op.v.slice(1, 0, end);
      ASSERT_TRUE(ok(run_with_scratch(cpu, op)));
    }
    expect_equal(got.out.memory, expected.out.memory);
    expect_equal(got.lse, expected.lse);
  }
}

TEST(flash_attention, chunks_give_the_bits_of_the_whole) {
  Rng rng(4);
  Case whole = make({.queries = 2200, .keys = 2200, .kv_heads = 1, .group = 3, .dim = 8, .v_dim = 8}, rng, DType::f32,
                    DType::f16);
  whole.alibi = Tensor<1>(DType::f32, {3}).fill(0.01);
  chunks_give_the_bits_of(whole, 2200);
}

TEST(flash_attention, chunks_of_every_cache_give_the_bits_of_the_whole) {
  Rng rng(15);
  for (DType kv : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    SCOPED_TRACE(describe(kv));
    Case whole =
        make({.queries = 150, .keys = 150, .kv_heads = 3, .group = 4, .dim = 40, .v_dim = 24}, rng, DType::f32, kv);
    whole.left = 90;
    chunks_give_the_bits_of(whole, 150);
  }
}

// Long enough for splits: a few rows run them in parallel, many rows in turn.
TEST(flash_attention, splits) {
  Rng rng(5);
  for (index queries : {1, 100}) {
    Case c = make({.queries = queries, .keys = 4200, .kv_heads = 1, .group = 1, .dim = 4, .v_dim = 5}, rng);
    c.left = queries == 1 ? -1 : 3000;
    c.causal = true;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(flash_attention, v_inside_k) {
  Rng rng(10);
  Case c =
      make({.queries = 5, .keys = 70, .kv_heads = 1, .group = 16, .dim = 72, .v_dim = 64}, rng, DType::f32, DType::f16);
  for (index j = 0; j < 70; ++j)
    for (index d = 0; d < 64; ++d) c.v.set(0, j, 0, d, c.k.get(0, j, 0, d));
  on_every_backend([&](const std::string&, auto run) {
    Case apart = c, inside = c;
    ASSERT_TRUE(ok(run(apart.op())));
    FlashAttention<Host> op = inside.op();
    op.v = op.k.slice(3, 0, 64);
    ASSERT_TRUE(ok(run(op)));
    expect_equal(inside.out.memory, apart.out.memory);
  });
}

TEST(flash_attention, merged_halves_give_the_whole) {
  Rng rng(11);
  Case c = make({.queries = 3, .keys = 90, .kv_heads = 1, .group = 2, .dim = 16, .v_dim = 16}, rng);
  Reference reference;
  Case whole = c, left = c, right = c;
  ASSERT_TRUE(ok(run(reference, whole.op())));
  FlashAttention<Host> op = left.op();
  op.k = op.k.slice(1, 0, 40), op.v = op.v.slice(1, 0, 40);
  ASSERT_TRUE(ok(run(reference, op)));
  op = right.op();
  op.k = op.k.slice(1, 40, 50), op.v = op.v.slice(1, 40, 50);
  ASSERT_TRUE(ok(run(reference, op)));
  for (index r = 0; r < 6; ++r) {
    const auto both = merge_lse(left.lse.get(r), right.lse.get(r));
    EXPECT_NEAR(both.lse, whole.lse.get(r), 1e-6);
    for (index d = 0; d < 16; ++d)
      EXPECT_NEAR(left.out.memory.get(r * 16 + d) * both.scale_a + right.out.memory.get(r * 16 + d) * both.scale_b,
                  whole.out.memory.get(r * 16 + d), 1e-6);
  }
}

TEST(flash_attention, reference_in_closed_form) {
  Rng rng(12);
  Reference reference;
  Case c = make({.queries = 2, .keys = 33, .kv_heads = 1, .group = 1, .dim = 8, .v_dim = 8}, rng);
  c.q.memory.fill(0);  // equal scores: the mean of V
  ASSERT_TRUE(ok(run(reference, c.op())));
  EXPECT_NEAR(c.lse.get(0), std::log(33.0), 1e-6);
  for (index d = 0; d < 8; ++d) {
    double mean = 0;
    for (index j = 0; j < 33; ++j) mean += c.v.get(0, j, 0, d) / 33;
    EXPECT_NEAR(c.out.get(0, 1, 0, d), mean, 1e-7);
  }
  c = make({.queries = 2, .keys = 1, .kv_heads = 1, .group = 1, .dim = 8, .v_dim = 8}, rng);  // one key: its V
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index d = 0; d < 8; ++d) EXPECT_EQ(c.out.get(0, 1, 0, d), c.v.get(0, 0, 0, d));
  c.sinks = Tensor<1>(DType::f32, {1}).fill(0);  // a sink as high as the key takes half
  c.q.memory.fill(0);
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index d = 0; d < 8; ++d) EXPECT_NEAR(c.out.get(0, 1, 0, d), c.v.get(0, 0, 0, d) / 2, 1e-7);
}

TEST(flash_attention, reference_agrees_with_eigen) {
  Rng rng(13);
  Case c = make({.queries = 7, .keys = 19, .kv_heads = 1, .group = 1, .dim = 24, .v_dim = 10}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd q = Eigen::Map<Matrix>(c.q.memory.data<float>(), 7, 24).cast<double>();
  const Eigen::MatrixXd k = Eigen::Map<Matrix>(c.k.memory.data<float>(), 19, 24).cast<double>();
  const Eigen::MatrixXd v = Eigen::Map<Matrix>(c.v.memory.data<float>(), 19, 10).cast<double>();
  Eigen::MatrixXd p = (q * k.transpose() / std::sqrt(24.0)).array().exp();
  const Eigen::VectorXd sums = p.rowwise().sum();
  const Eigen::MatrixXd out = sums.cwiseInverse().asDiagonal() * (p * v);
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(c.lse.get(i), std::log(sums(i)), 1e-6);
    for (int d = 0; d < 10; ++d) EXPECT_NEAR(c.out.get(0, i, 0, d), out(i, d), 1e-7);
  }
}

TEST(flash_attention, refuses_what_the_contract_does_not_cover) {
  Rng rng(14);
  Case c = make({.batch = 2, .queries = 3, .keys = 8, .kv_heads = 2, .group = 3, .dim = 8, .v_dim = 8}, rng);
  EXPECT_TRUE(ok(check(c.op())));
  FlashAttention<Host> op = c.op();
  op.q.extents[2] = 5;
  op.out.extents[2] = 5;
  op.lse.extents[2] = 5;
  expect_refused(op, {"q", "5", "heads", "2"});
  op = c.op();
  op.k.dtype = DType::i8;
  expect_refused(op, {"k_scale", "i8"});
  op = c.op();
  op.softcap = -1;
  expect_refused(op, {"softcap", "-1"});
  op = c.op();
  op.bias_order = static_cast<BiasOrder>(3);
  expect_refused(op, {"bias_order", "3", "0..2"});
  op = c.op();
  op.k.strides[3] = 2;
  expect_refused(op, {"k", "innermost stride 2"});
  Tensor<1> lens(DType::i32, {2});
  lens.set(0, 8), lens.set(1, 9);
  op = c.op();
  op.kv_lens = lens;
  expect_refused(op, {"kv_lens", "9", "0..8"});
  Tensor<2> table(DType::i32, {2, 1});
  table.set(0, 1), table.set(1, 2);
  lens.set(1, 4);
  op.block_table = table;
  expect_refused(op, {"block_table", "block 2", "[1, 0]", "0..1"});
  table.set(1, -1);
  expect_refused(op, {"block_table", "block -1"});
  lens.set(1, 0);  // no key, no block
  EXPECT_TRUE(ok(check(op)));
  Tensor<1> indptr(DType::i32, {3});
  indptr.set(0, 0), indptr.set(1, 3), indptr.set(2, 2);
  op = c.op();
  op.q = op.q.slice(0, 0, 1), op.out = op.out.slice(0, 0, 1), op.lse = op.lse.slice(0, 0, 1);
  op.q_indptr = indptr;
  expect_refused(op, {"q_indptr", "2"});
  op = c.op();
  Tensor<4> mask(DType::boolean, {1, 1, 3, 7});
  op.atten_mask = mask;
  expect_refused(op, {"atten_mask", "[1, 1, 3, 7]", "8"});
  op = c.op();
  op.out.data = const_cast<void*>(op.q.data);
  expect_refused(op, {"out", "overlaps", "q"});
}

}  // namespace
}  // namespace inlay::test
