// Every option with every other, drawn at random: over a few tiles of keys, and over three splits and more. Then, over
// three splits, what the other operators are not given.
#include "tests/attention/draw.hpp"
#include "tests/incre_flash_attention/case.hpp"

namespace inlay::test {
namespace {

constexpr index split = cpu::decode_split;

// Each sequence has memory of its own: one as long as all slots, the others around tiles and ends of splits.
void draw_list(Case& c, Draw& draw, const ProblemShape& s, DType kv, DType v_type, Layout layout) {
  const std::vector<index> lengths = lengths_around(split, s.keys);
  const index longest = draw(0, s.batch - 1);
  for (index b = 0; b < s.batch; ++b) {
    const index slots = c.kv_lens.present() || b == longest ? s.keys : draw.of(lengths);
    c.k_parts.push_back({kv, {slots, s.kv_heads, s.dim}, layout});
    c.v_parts.push_back({v_type, {slots, s.kv_heads, s.v_dim}, layout});
    fill_kv(c.k_parts.back(), draw.rng);
    fill_kv(c.v_parts.back(), draw.rng);
  }
}

Case draw_case(Draw& draw, const DrawRange& range) {
  const ProblemShape s{.batch = draw(1, range.batch),
                       .queries = draw.chance(2) ? 1 : draw(1, range.queries),
                       .keys = draw(range.min_keys, range.max_keys),
                       .kv_heads = draw(1, range.heads),
                       .group = draw(1, range.group),
                       .dim = draw(1, range.dim),
                       .v_dim = draw(1, range.dim)};
  const index heads = s.kv_heads * s.group;
  const DType kv = draw.of(kv_dtypes), v_type = draw.chance(3) ? draw.of(kv_dtypes) : kv;
  const DType out = draw.chance(4) ? DType::i8 : draw.of(float_types);
  const Layout layout = draw.of(layouts);
  Case c = make(s, draw.rng, draw.of(float_types), kv, out, layout, draw.chance(2));
  if (v_type != kv) {
    c.v = {v_type, {s.batch, s.keys, s.kv_heads, s.v_dim}, layout, draw.chance(2)};
    fill_kv(c.v.memory, draw.rng);
    c.v_scale = {};
  }
  const bool varied = draw.chance(2);
  if (varied) {
    c.kv_lens = {draw.of(ids_types), {draw.chance(2) ? s.batch : 1}};
    const std::vector<index> lengths = lengths_around(split, s.keys);
    for (index b = 0; b < c.kv_lens.size(); ++b)
      c.kv_lens.set(b, static_cast<double>(draw.chance(2) ? draw(0, s.keys) : draw.of(lengths)));
    if (s.keys > split) c.kv_lens.set(draw(0, c.kv_lens.size() - 1), static_cast<double>(s.keys - draw(0, 3)));
  }
  if (draw.chance(4)) draw_list(c, draw, s, kv, v_type, layout);
  if (c.k_parts.empty() && draw.chance(2)) drift(c, draw.chance(2));
  c.left_padding = draw.chance(3);
  c.padding = draw(-2, 3);
  draw_options(c, draw, s, split, false, 2, layout);
  const auto of_slots = [&](index kind) {
    if (kind == 2) return std::array<index, 4>{s.batch, 1, s.kv_heads, 1};
    return std::array<index, 4>{draw.chance(3) ? 1 : s.batch, s.keys, draw.chance(2) ? s.kv_heads : 1, 1};
  };
  draw_quantization(c, draw, s.kv_heads, s.dim, s.v_dim, of_slots, layout);
  if (out == DType::i8) {
    for (Tensor<2>* t : {&c.out_scale, &c.out_offset})
      *t = {DType::f32, {draw.chance(2) ? heads : 1, draw.chance(2) ? s.v_dim : 1}};
    c.out_scale.uniform(draw.rng, 50, 300);
    c.out_offset.uniform(draw.rng, -10, 10);
    if (draw.chance(3)) c.out_offset = {};
  }
  poison_unused(c);
  return c;
}

TEST(incre_flash_attention, random_combinations) {
  Draw draw(3);
  RoundedIntegers integers;
  for (int turn = 0; turn < 150; ++turn) {
    SCOPED_TRACE(describe("turn", turn));
    const Case c = draw_case(draw, {1, 150, 3, 4, 3, 5, 40});
    ASSERT_NO_FATAL_FAILURE(compare(c, &integers));
  }
}

TEST(incre_flash_attention, random_combinations_over_three_splits) {
  Draw draw(31);
  RoundedIntegers integers;
  for (int turn = 0; turn < 40; ++turn) {
    SCOPED_TRACE(describe("turn", turn));
    const Case c = draw_case(draw, {2 * split + 1, 3 * split + cpu::key_tile, 2, 3, 2, 2, 12});
    ASSERT_NO_FATAL_FAILURE(compare(c, &integers));
  }
}

constexpr ProblemShape three{
    .batch = 2, .queries = 3, .keys = keys_of_three(split), .kv_heads = 2, .group = 2, .dim = 10, .v_dim = 12};
constexpr index all_heads = three.kv_heads * three.group;

// A case of three splits in which the largest scores come last, or first, and what `change` makes of it.
template <class Change> void over_three_splits(DType kv, Change&& change, DType out = DType::f32) {
  RoundedIntegers integers;
  for (bool rising : {false, true}) {
    Rng rng(rising);
    ProblemShape shape = three;
    if (rising) shape.dim = 16;  // six rows of a kv head: its keys go four side by side (attention/four_rows.hpp)
    Case c = make(shape, rng, DType::f32, kv, out);
    drift(c, rising);
    change(c, rng);
    poison_unused(c);
    ASSERT_NO_FATAL_FAILURE(compare(c, &integers));
  }
}

TEST(incre_flash_attention, splits_left_padding) {
  for (index padding : {index{0}, index{1}, split - 5, split})
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f16, [&](Case& c, Rng& rng) {
      c.kv_lens = list_of(DType::i32, {split + 3, 2});
      if (padding <= 1) c.kv_lens = list_of(DType::i32, {2 * split + 1, split});
      c.left_padding = true, c.padding = padding;
      c.bias = {DType::f16, {1, all_heads, 1, three.keys}};
      c.bias.uniform(rng);
      c.mask = {DType::boolean, {2, 1, 1, three.keys}};
      c.mask.integers(rng, 0, 1);
    }));
}

TEST(incre_flash_attention, splits_lists) {
  for (DType kv : {DType::f32, DType::i8})
    ASSERT_NO_FATAL_FAILURE(over_three_splits(kv, [&](Case& c, Rng& rng) {
      for (index slots : {three.keys, index{5}}) {
        c.k_parts.push_back({kv, {slots, three.kv_heads, c.q.view().extents[3]}, layouts[1]});
        c.v_parts.push_back({kv, {slots, three.kv_heads, three.v_dim}, layouts[1]});
        fill_kv(c.k_parts.back(), rng);
        fill_kv(c.v_parts.back(), rng);
      }
    }));
}

TEST(incre_flash_attention, splits_int8_outputs) {
  ASSERT_NO_FATAL_FAILURE(over_three_splits(
      DType::f32,
      [](Case& c, Rng& rng) {
        c.out_scale = Tensor<2>(DType::f32, {all_heads, three.v_dim}).uniform(rng, 50, 300);
        c.out_offset = Tensor<2>(DType::f32, {1, three.v_dim}).uniform(rng, -20, 20);
      },
      DType::i8));
}

}  // namespace
}  // namespace inlay::test
