// Every option with every other, drawn at random: over a few tiles of keys, and over three splits and more.
#include "tests/attention/draw.hpp"
#include "tests/flash_attention/case.hpp"

namespace inlay::test {
namespace {

constexpr index split = cpu::prompt_split;

Case draw_case(Draw& draw, const DrawRange& range) {
  const index batch = draw(1, range.batch), heads = draw(1, range.heads), group = draw(1, range.group);
  const index dim = draw(1, range.dim), v_dim = draw(1, range.dim);
  const bool is_long = range.min_keys > split;
  std::vector<index> queries, keys;
  const bool ragged_q = draw.chance(2), ragged_kv = draw.chance(3), paged = !ragged_kv && draw.chance(2);
  for (index b = 0; b < batch; ++b) {
    queries.push_back(ragged_q || b == 0 ? draw(0, range.queries) : queries[0]);
    keys.push_back(draw(range.min_keys, range.max_keys));
    if (is_long && b > 0) keys.back() = draw.of(lengths_around(split, range.max_keys));
  }
  if (draw.chance(4)) std::swap(queries.front(), queries.back()), std::swap(keys.front(), keys.back());
  if (!ragged_q) queries.assign(queries.size(), queries[0]);
  const index total_q = begins_of(queries).back(), total_kv = begins_of(keys).back();
  const index max_q = *std::ranges::max_element(queries), max_kv = *std::ranges::max_element(keys) + draw(0, 1);
  const DType type = draw.of(float_types), kv = draw.of(kv_dtypes), v_type = draw.chance(3) ? draw.of(kv_dtypes) : kv;
  const bool swap = draw.chance(2);
  const Layout layout = draw.of(layouts);
  const index extra = ragged_q ? 2 : 0;  // rows behind the last sequence stay as they are
  using Rows = std::array<index, 2>;
  const Rows q_rows = ragged_q ? Rows{1, total_q + extra} : Rows{batch, max_q};
  const Rows kv_rows = ragged_kv ? Rows{1, total_kv + 1} : Rows{batch, max_kv};
  Case c = make({.kv_heads = heads, .group = group, .dim = dim, .v_dim = v_dim}, draw.rng);
  c.q = {type, {q_rows[0], q_rows[1], heads * group, dim}, layout, swap};
  c.out = {draw.of(float_types), {q_rows[0], q_rows[1], heads * group, v_dim}, layout, swap};
  c.k = {kv, {kv_rows[0], kv_rows[1], heads, dim}, layout, swap};
  c.v = {v_type, {kv_rows[0], kv_rows[1], heads, v_dim}, layout, draw.chance(2)};
  c.lse = {DType::f32, {q_rows[0], q_rows[1], heads * group}};
  c.q.memory.uniform(draw.rng);
  fill_kv(c.k.memory, draw.rng);
  fill_kv(c.v.memory, draw.rng);
  c.out.memory.poison();
  c.lse.poison();
  c.longest = max_kv;
  c.unwritten = extra;
  if (draw.chance(2)) drift(c, draw.chance(2));
  if (ragged_q) c.q_indptr = list_of(draw.of(ids_types), begins_of(queries));
  if (ragged_kv) c.kv_indptr = list_of(draw.of(ids_types), begins_of(keys));
  if (!ragged_kv) c.kv_lens = list_of(draw.of(ids_types), keys);
  if (draw.chance(3)) {
    c.q_start = Tensor<1>(draw.of(ids_types), {batch});
    for (index b = 0; b < batch; ++b)
      c.q_start.set(b, static_cast<double>(draw.chance(2) ? draw(-3, 60) : draw(0, max_kv)));
  }
  if (draw.chance(4)) add_packed_mask(c, queries, keys, draw.rng);
  if (draw.chance(3)) c.right = draw.of(windows_around(split, max_kv));
  const ProblemShape drawn{.batch = batch, .queries = max_q, .keys = max_kv, .kv_heads = heads, .group = group};
  draw_options(c, draw, drawn, split, true, 0, layout);
  const auto of_tokens = [&](index) {
    return std::array<index, 4>{draw.chance(3) ? 1 : kv_rows[0], kv_rows[1], draw.chance(2) ? heads : 1, 1};
  };
  draw_quantization(c, draw, heads, dim, v_dim, of_tokens, layout);
  if (paged) page(c, is_long ? draw.of(std::vector<index>{1, 16, 24, 100, 3000}) : draw(1, 20), draw.rng);
  return c;
}

TEST(flash_attention, random_combinations) {
  Draw draw(3);
  for (int turn = 0; turn < 120; ++turn) {
    SCOPED_TRACE(describe("turn", turn));
    const Case c = draw_case(draw, {0, 150, 3, 40, 3, 4, 40});
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(flash_attention, random_combinations_over_three_splits) {
  Draw draw(31);
  for (int turn = 0; turn < 30; ++turn) {
    SCOPED_TRACE(describe("turn", turn));
    const Case c = draw_case(draw, {2 * split + 1, 2 * split + cpu::key_tile, 2, 3, 2, 2, 8});
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(flash_attention, random_combinations_of_bf16_products) {
  Draw draw(32);
  for (int turn = 0; turn < 120; ++turn) {
    SCOPED_TRACE(describe("turn", turn));
    const DrawRange range = turn % 10 == 0 ? DrawRange{2 * split + 1, 2 * split + cpu::key_tile, 2, 3, 2, 2, 8}
                                           : DrawRange{0, 150, 3, 70, 3, 4, 70};
    ASSERT_NO_FATAL_FAILURE(compare(in_bf16(draw_case(draw, range))));
  }
}

}  // namespace
}  // namespace inlay::test
