// One case of paged_attention: everything that it needs, so that backends start from the same bytes.
#pragma once

#include <inlay/ops/paged_attention.hpp>

#include <limits>

#include "tests/support/attention.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/paged.hpp"

namespace inlay::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

struct Shape {
  std::vector<index> lens = {0, 1, 7, 70};
  index q_heads = 4, kv_heads = 2, key_dim = 24, value_dim = 24, block_size = 16;
  DType cache = DType::f16, q = DType::f32, out = DType::f32;
  Pages pages = Pages::flat;
  Layout layout = {};
};

// What no query may see is NaN (scales and floats) or out of range (table entries): slots past a
// context, blocks that no table names, entries past the last block.
struct Case {
  Tensor<3> q, out, key_scales = {}, value_scales = {};
  Tensor<2> tables, lse;
  Tensor<1> lens, slopes = {}, sinks = {};
  Pool keys, values;
  PagedAttention<Host> extra;  // scalars

  PagedAttention<Host> op() {
    PagedAttention<Host> op = extra;
    op.q = q;
    op.key_cache = keys;
    op.value_cache = values;
    op.block_tables = tables;
    op.context_lens = lens;
    op.out = out;
    op.lse = lse;
    op.key_scales = key_scales;
    op.value_scales = value_scales;
    op.alibi_slopes = slopes;
    op.sinks = sinks;
    return op;
  }
};

// Full blocks are drawn with repetition, so sequences share them; each last block is its own.
inline Case make(const Shape& shape, Rng& rng) {
  const index seqs = static_cast<index>(shape.lens.size()), bs = shape.block_size, shared = 5, unnamed = 2;
  index longest = 0;
  for (index length : shape.lens) longest = std::max(longest, length);
  const index columns = (longest + bs - 1) / bs + 1, blocks = shared + seqs + unnamed;
  Case c{
      .q = {shape.q, {seqs, shape.q_heads, shape.key_dim}, shape.layout},
      .out = {shape.out, {seqs, shape.q_heads, shape.value_dim}, shape.layout},
      .tables = {DType::i32, {seqs, columns}, shape.layout},
      .lse = {DType::f32, {seqs, shape.q_heads}, shape.layout},
      .lens = {DType::i32, {seqs}},
      .keys = {shape.cache, {blocks, bs, shape.kv_heads, shape.key_dim}, shape.pages, Pool::keys, shape.layout},
      .values = {shape.cache, {blocks, bs, shape.kv_heads, shape.value_dim}, shape.pages, Pool::values, shape.layout},
      .extra = {}};
  c.q.uniform(rng);
  c.out.poison();
  c.lse.poison();
  c.keys.memory.poison();
  c.values.memory.poison();
  const bool quantized = shape.cache == DType::i8;
  if (quantized)
    c.key_scales = c.value_scales = Tensor<3>(DType::f32, {blocks, shape.kv_heads, bs}, shape.layout).poison();
  c.tables.fill(std::numeric_limits<std::int32_t>::max());
  std::uniform_real_distribution<double> number(-1, 1);
  const auto fill = [&](index block, index slots) {
    for (index slot = block * bs; slot < block * bs + slots; ++slot)
      for (index h = 0; h < shape.kv_heads; ++h) {
        for (index d = 0; d < shape.key_dim; ++d) c.keys.set(slot, h, d, number(rng) * (quantized ? 127 : 1));
        for (index d = 0; d < shape.value_dim; ++d) c.values.set(slot, h, d, number(rng) * (quantized ? 127 : 1));
        for (auto* scales : {&c.key_scales, &c.value_scales})
          if (quantized) scales->set((block * shape.kv_heads + h) * bs + slot % bs, (1.5 + number(rng)) / 254);
      }
  };
  for (index block = 0; block < shared; ++block) fill(block, bs);
  for (index b = 0; b < seqs; ++b) {
    const index length = shape.lens[b], full = length / bs;
    c.lens.set(b, static_cast<double>(length));
    for (index i = 0; i < full; ++i) c.tables.set(b * columns + i, static_cast<double>(rng() % shared));
    if (length % bs == 0) continue;
    c.tables.set(b * columns + full, static_cast<double>(shared + b));
    fill(shared + b, length % bs);
  }
  return c;
}

// max over tokens of ||vector||, as the operator sees it.
inline double largest_norm(const Case& start, bool keys) {
  Case c = start;
  const PagedAttention<Host> op = c.op();
  const ConstPagedView<>& cache = keys ? op.key_cache : op.value_cache;
  const ConstView<3>& scales = keys ? op.key_scales : op.value_scales;
  double largest = 0;
  for (index slot = 0; slot < slot_count(cache); ++slot)
    for (index h = 0; h < kv_head_count(cache); ++h) {
      double sum = 0;
      for (index d = 0; d < head_dim_of(cache); ++d) {
        const double x = load_element(cache.data, cache.dtype, paged_offset(cache, slot, h, d));
        sum += x * x;
      }
      const index bs = block_size_of(cache);
      const double scale = scales.present() ? at(scales, slot / bs, h, slot % bs) : 1;
      if (sum * scale * scale > largest) largest = sum * scale * scale;  // NaN, the poison, is passed over
    }
  return std::sqrt(largest);
}

// A score is a sum of dim products: its error is at most (dim + 8) eps S with S = scale |q| |k| + |bias|
// (Cauchy-Schwarz; 8 covers scales, scale, bias, softcap and the subtraction of the maximum). It moves a
// weight by as much relatively, numerator and denominator: twice. Both sums over n tokens add n eps, exp
// and merges a few. All of it is relative to sum p |v| <= max |v|.
struct Bound {
  double out, lse, value;
};
inline Bound bound(const Case& c) {
  double n = 0, q = 0;
  for (index b = 0; b < c.lens.size(); ++b) n = std::max(n, c.lens.get(b));
  const index dim = c.q.extents()[2];
  for (index row = 0; row < c.q.size() / dim; ++row) {
    double sum = 0;
    for (index d = 0; d < dim; ++d) sum += c.q.get(row * dim + d) * c.q.get(row * dim + d);
    q = std::max(q, sum);
  }
  const double s = std::sqrt(q / static_cast<double>(dim)) * largest_norm(c, true) + (c.slopes.present() ? n : 0);
  const double score = (static_cast<double>(dim) + 8) * s;
  return {2 * score + 2 * n + 32, score + n + 32, largest_norm(c, false)};
}

inline void compare(const Case& start) {
  Case expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  const Bound limit = bound(start);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_close(got.out, expected.out, limit.out, [&](index) { return limit.value; });
    expect_close(got.lse, expected.lse, limit.lse, [&](index k) { return 1 + std::abs(expected.lse.get(k)); });
    EXPECT_TRUE(got.out.gaps_untouched());
    EXPECT_TRUE(got.lse.gaps_untouched());
  });
  for (index k = 0; k < expected.out.size(); ++k) ASSERT_TRUE(std::isfinite(expected.out.get(k)));
}

}  // namespace inlay::test
