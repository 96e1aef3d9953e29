// Every option with every other, drawn at random: over a few tiles of keys, and over three splits and more.
#include "tests/incre_flash_attention/case.hpp"

namespace inlay::test {
namespace {

constexpr index split = cpu::decode_split;

struct Range {
  index least_keys, most_keys, batch, queries, heads, group, dim;
};

// Of int8 K or V with slots for `keys`: of a tensor, of channels, of tokens, of heads of sequences.
Tensor<4> draw_quantization(Draw& draw, index kind, index batch, index keys, index heads, index width, Layout layout) {
  if (kind == 0) return {DType::f32, {1, 1, 1, 1}};
  if (kind == 1) return {DType::f32, {1, 1, heads, width}};
  if (kind == 2) return {DType::f32, {batch, 1, heads, 1}};
  return {DType::f32, {draw.chance(3) ? 1 : batch, keys, draw.chance(2) ? heads : 1, 1}, layout};
}

// Each sequence has memory of its own: one as long as all slots, the others around tiles and ends of splits.
void draw_list(Case& c, Draw& draw, const Shape& s, DType kv, DType v_type, Layout layout) {
  const std::vector<index> lengths = lengths_around(split, s.keys);
  const index longest = draw(0, s.batch - 1);
  for (index b = 0; b < s.batch; ++b) {
    const index slots = c.lengths.present() || b == longest ? s.keys : draw.of(lengths);
    c.k_parts.push_back({kv, {slots, s.kv_heads, s.dim}, layout});
    c.v_parts.push_back({v_type, {slots, s.kv_heads, s.v_dim}, layout});
    fill_kv(c.k_parts.back(), draw.rng);
    fill_kv(c.v_parts.back(), draw.rng);
  }
}

Case draw_case(Draw& draw, const Range& range) {
  const Shape s{.batch = draw(1, range.batch),
                .queries = draw.chance(2) ? 1 : draw(1, range.queries),
                .keys = draw(range.least_keys, range.most_keys),
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
    c.lengths = {draw.of(ids_types), {draw.chance(2) ? s.batch : 1}};
    const std::vector<index> lengths = lengths_around(split, s.keys);
    for (index b = 0; b < c.lengths.size(); ++b)
      c.lengths.set(b, static_cast<double>(draw.chance(2) ? draw(0, s.keys) : draw.of(lengths)));
    if (s.keys > split) c.lengths.set(draw(0, c.lengths.size() - 1), static_cast<double>(s.keys - draw(0, 3)));
  }
  if (draw.chance(4)) draw_list(c, draw, s, kv, v_type, layout);
  if (c.k_parts.empty() && draw.chance(2)) drift(c, draw.chance(2));
  c.left_padding = draw.chance(3);
  c.padding = draw(-2, 3);
  if (draw.chance(3)) {
    c.pse = {draw.of(float_types),
             {draw.chance(2) ? s.batch : 1, draw.chance(2) ? heads : 1, draw.chance(2) ? s.queries : 1, s.keys + 2},
             layout};
    c.pse.uniform(draw.rng);
    for (index i = 0; i < c.pse.size() / 9; ++i) c.pse.set(draw(0, c.pse.size() - 1), -HUGE_VAL);
    for (index i = 0; i < c.pse.size(); ++i)
      if (i % (s.keys + 2) >= s.keys) c.pse.set(i, nan);
  }
  if (draw.chance(3)) {
    c.mask = {DType::boolean, {draw.chance(2) ? s.batch : 1, draw.chance(2) ? s.queries : 1, s.keys + 1}, layout};
    c.mask.integers(draw.rng, 0, 1);
  }
  if (draw.chance(4)) c.alibi = draw.chance(2) ? alibi_slopes(heads) : slight_slopes(heads, s.keys, draw.rng);
  if (draw.chance(4)) c.sinks = random_sinks(heads, draw.rng);
  c.causal = draw.chance(2);
  if (draw.chance(3)) c.left = draw.of(windows_around(split, s.keys));
  c.softcap = draw.chance(4) ? 3.0f : 0.0f;
  c.order = draw.of(bias_orders);
  c.scale = draw.chance(3) ? draw.of(std::array{0.25f, -0.4f, 1.0f}) : 0.0f;
  const auto quantize = [&](DType type, index width, double high, Tensor<4>& scale, Tensor<4>& offset) {
    if (type != DType::i8) return;
    const index kind = draw(0, 3), offset_kind = draw.chance(2) ? kind : draw(0, 3);
    scale = draw_quantization(draw, kind, s.batch, s.keys, s.kv_heads, width, layout);
    scale.uniform(draw.rng, 0.002, high);
    if (draw.chance(2)) return;
    offset = draw_quantization(draw, offset_kind, s.batch, s.keys, s.kv_heads, width, layout);
    offset.uniform(draw.rng, -20, 20);
  };
  quantize(kv, s.dim, 0.008, c.k_scale, c.k_offset);
  quantize(v_type, s.v_dim, 0.004, c.v_scale, c.v_offset);
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

TEST(incre_flash_attention, softcaps_of_every_size) {
  compare_extreme_softcaps([](const Shape& shape, Rng& rng) { return make(shape, rng); });
}

}  // namespace
}  // namespace inlay::test
