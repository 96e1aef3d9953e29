// One case of paged_attention: everything that it needs, so that backends start from the same bytes.
#pragma once

#include <inlay/ops/paged_attention.hpp>

#include <limits>
#include <optional>

#include "tests/attention/case.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/paged.hpp"

namespace inlay::test {

struct Shape {
  std::vector<index> lens = {0, 1, 7, 70};
  index q_heads = 4, kv_heads = 2, key_dim = 24, value_dim = 24, block_size = 16;
  DType cache = DType::f16, q = DType::f32, out = DType::f32;
  Pages pages = Pages::flat;
  std::optional<Pages> value_pages = {};  // the values', if not the keys'
  index x = 0;                            // of pieces; 0: 16 bytes
  Layout layout = {};
  index spare = 1;     // rows, heads and tokens that lie between those of the case, in every tensor
  bool shared = true;  // sequences have blocks in common
};

inline constexpr double untouched = 7;  // what lies between the outputs, before and behind

// What no query may see is NaN (scales and floats) or out of range (table entries): slots past a
// context, blocks that no table names, entries past the last block.
struct Case {
  index q_heads, spare;
  Tensor<3> q, out, k_scale = {}, v_scale = {};
  Tensor<2> tables, lse;
  Tensor<1> lens, slopes = {}, sinks = {};
  Pool keys, values;
  PagedAttention<Host> extra;  // scalars

  // The heads spare .. spare + heads of a tensor that has more, as parts of a fused row have.
  template <class V> V part(V all, index heads) const { return all.slice(1, spare, heads); }

  PagedAttention<Host> op() {
    PagedAttention<Host> op = extra;
    op.q = part(q.view(), q_heads);
    op.k = keys;
    op.v = values;
    op.block_table = tables;
    op.kv_lens = lens;
    op.out = part(out.view(), q_heads);
    op.lse = part(lse.view(), q_heads);
    if (k_scale.present()) {
      op.k_scale = part(k_scale.view(), op.k.extents[1]);
      op.v_scale = part(v_scale.view(), op.k.extents[1]);
    }
    op.alibi_slopes = slopes;
    op.sinks = sinks;
    return op;
  }
  Case unrounded() const {
    Case wide = *this;
    wide.out = out.widened();
    return wide;
  }

  // Where element d of a head's output, or its lse, lies in `out` or `lse`.
  index out_at(index b, index h, index d = 0) const {
    return (b * out.extents()[1] + spare + h) * out.extents()[2] + d;
  }
  index lse_at(index b, index h) const { return b * lse.extents()[1] + spare + h; }
  index slot_of(index b, index j) {
    const index block_size = block_size_of(keys.view());
    return static_cast<index>(tables.get(b * tables.extents()[1] + j / block_size)) * block_size + j % block_size;
  }
  void set_scale(Tensor<3>& scales, index slot, index h, double value) const {
    const index block_size = scales.extents()[2];
    scales.set((slot / block_size * scales.extents()[1] + spare + h) * block_size + slot % block_size, value);
  }
  double scale_of(const Tensor<3>& scales, index slot, index h) const {
    const index block_size = scales.extents()[2];
    return scales.present()
               ? scales.get((slot / block_size * scales.extents()[1] + spare + h) * block_size + slot % block_size)
               : 1;
  }
};

// NaN where an operator must write, `untouched` where it must not.
template <int Rank> void poison_heads(Tensor<Rank>& t, index spare, index heads) {
  index inner = 1;
  for (int d = 2; d < Rank; ++d) inner *= t.extents()[d];
  for (index k = 0; k < t.size(); ++k) {
    const index head = k / inner % t.extents()[1] - spare;
    t.set(k, head >= 0 && head < heads ? nan : untouched);
  }
}

// Full blocks are drawn from a pool with repetition, so that sequences share some; each last block is its own.
inline Case make(const Shape& shape, Rng& rng) {
  const index seqs = static_cast<index>(shape.lens.size()), bs = shape.block_size, spare = shape.spare, unnamed = 2;
  index longest = 0, full = 0;
  for (index length : shape.lens) longest = std::max(longest, length), full += length / bs;
  const index shared = 2 + (shape.shared ? full * 3 / 4 : full), columns = (longest + bs - 1) / bs + 1,
              blocks = shared + seqs + unnamed;
  const PoolShape pool{blocks, bs, shape.kv_heads, shape.key_dim, shape.x, spare};
  PoolShape value_pool = pool;
  value_pool.dim = shape.value_dim;
  Case c{.q_heads = shape.q_heads,
         .spare = spare,
         .q = {shape.q, {seqs, shape.q_heads + 2 * spare, shape.key_dim}, shape.layout},
         .out = {shape.out, {seqs, shape.q_heads + 2 * spare, shape.value_dim}, shape.layout},
         .tables = {DType::i32, {seqs, columns}, shape.layout},
         .lse = {DType::f32, {seqs, shape.q_heads + 2 * spare}, shape.layout},
         .lens = {DType::i32, {seqs}},
         .keys = {shape.cache, pool, shape.pages, Pool::keys, shape.layout},
         .values = {shape.cache, value_pool, shape.value_pages.value_or(shape.pages), Pool::values, shape.layout},
         .extra = {}};
  c.q.uniform(rng);
  poison_heads(c.out, spare, shape.q_heads);
  poison_heads(c.lse, spare, shape.q_heads);
  c.keys.memory.poison();
  c.values.memory.poison();
  const bool quantized = shape.cache == DType::i8;
  if (quantized)
    c.k_scale = c.v_scale = Tensor<3>(DType::f32, {blocks, shape.kv_heads + 2 * spare, bs}, shape.layout).poison();
  c.tables.fill(std::numeric_limits<std::int32_t>::max());
  std::uniform_real_distribution<double> number(-1, 1);
  const auto fill = [&](index block, index slots) {
    for (index slot = block * bs; slot < block * bs + slots; ++slot)
      for (index h = 0; h < shape.kv_heads; ++h) {
        for (index d = 0; d < shape.key_dim; ++d) c.keys.set(slot, h, d, number(rng) * (quantized ? 127 : 1));
        for (index d = 0; d < shape.value_dim; ++d) c.values.set(slot, h, d, number(rng) * (quantized ? 127 : 1));
        for (auto* scales : {&c.k_scale, &c.v_scale})
          if (quantized) c.set_scale(*scales, slot, h, (1.5 + number(rng)) / 254);
      }
  };
  for (index block = 0; block < shared; ++block) fill(block, bs);
  std::vector<index> order(static_cast<std::size_t>(shared));
  std::iota(order.begin(), order.end(), 0);
  if (!shape.shared) std::shuffle(order.begin(), order.end(), rng);
  for (index b = 0; b < seqs; ++b) {
    const index length = shape.lens[b], whole = length / bs;
    c.lens.set(b, static_cast<double>(length));
    for (index i = 0; i < whole; ++i) {
      c.tables.set(b * columns + i,
                   static_cast<double>(shape.shared ? static_cast<index>(rng() % shared) : order.back()));
      if (!shape.shared) order.pop_back();
    }
    if (length % bs == 0) continue;
    c.tables.set(b * columns + whole, static_cast<double>(shared + b));
    fill(shared + b, length % bs);
  }
  return c;
}

INLAY_RUNS_OF(PagedAttention, extern);

}  // namespace inlay::test
