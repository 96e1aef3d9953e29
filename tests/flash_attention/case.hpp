// One case of flash_attention.
#pragma once

#include <inlay/ops/flash_attention.hpp>

#include "tests/attention/judged.hpp"

namespace inlay::test {

struct Case : AttentionCase {
  Tensor<1> q_indptr, kv_indptr, q_start, mask_indptr, packed_mask;
  Tensor<2> table;
  index right = -1;
  AttentionCompute compute = AttentionCompute::exact_float;

  using AttentionCase::AttentionCase;
  explicit Case(const AttentionCase& problem) : AttentionCase(problem) {}

  FlashAttention<Host> op() {
    auto op = common<FlashAttention<Host>>();
    op.q_indptr = q_indptr, op.kv_indptr = kv_indptr;
    op.kv_lens = kv_lens, op.block_table = table, op.q_start = q_start;
    op.bias = bias, op.mask = mask;
    op.packed_mask = packed_mask, op.mask_indptr = mask_indptr;
    op.window_right = right;
    op.compute = compute;
    return op;
  }
};

inline Case make(const ProblemShape& s, Rng& rng, DType type = DType::f32, DType kv = DType::f32, Layout layout = {},
                 bool swap = false) {
  return Case(s, rng, type, kv, type, layout, swap);
}

// The same with products of bf16, over operands that it holds: the weights alone are rounded then.
inline Case in_bf16(Case c) {
  for (Permuted* t : {&c.q, &c.k, &c.v})
    for (index e = 0; e < t->memory.size() && t->memory.dtype() != DType::i8; ++e)
      t->memory.set(e, round_to(DType::bf16, t->memory.get(e)));
  c.compute = AttentionCompute::bf16_products;
  c.weights_off = epsilon(DType::bf16);
  return c;
}

// Where sequences of these lengths begin, and the last one's end.
inline std::vector<index> begins_of(const std::vector<index>& lengths) {
  std::vector<index> begins{0};
  for (index length : lengths) begins.push_back(begins.back() + length);
  return begins;
}

// Bits of a sequence, one behind the other; some queries see nothing. Sequence b has b bytes more than it needs.
inline void add_packed_mask(Case& c, const std::vector<index>& queries, const std::vector<index>& keys, Rng& rng) {
  std::vector<index> bytes;
  for (std::size_t b = 0; b < queries.size(); ++b)
    bytes.push_back((queries[b] * keys[b] + 7) / 8 + static_cast<index>(b));
  const std::vector<index> begins = begins_of(bytes);
  c.packed_mask = Tensor<1>(DType::u8, {begins.back()});
  c.packed_mask.integers(rng, 0, 255);
  c.mask_indptr = list_of(DType::i32, begins);
}

// A mask of pairs, one a sequence, as bits of what is seen.
inline void mask_as_bits(Case& c) {
  const auto [batch, heads, queries, keys] = c.mask.extents();
  std::vector<index> begins;
  for (index b = 0; b <= batch; ++b) begins.push_back(b * ((queries * keys + 7) / 8));
  c.packed_mask = Tensor<1>(DType::u8, {begins.back()}).fill(0);
  c.mask_indptr = list_of(DType::i32, begins);
  for (index b = 0; b < batch; ++b) {
    const index n = c.kv_lens.present() ? static_cast<index>(c.kv_lens.get(b)) : keys;
    for (index i = 0; i < queries; ++i)
      for (index j = 0; j < n; ++j)
        if (const index bit = i * n + j; c.mask.get((b * queries + i) * keys + j) == 0)
          c.packed_mask.data<unsigned char>()[begins[static_cast<std::size_t>(b)] + bit / 8] |= 1 << bit % 8;
  }
  c.mask = {};
}

// The keys of each sequence of a padded case move into shuffled blocks: what was row j of sequence b lies where the
// table says, and so do scales and offsets of tokens. Blocks that no table names, and unused rows, hold NaN; entries
// behind the last block are no blocks.
inline void page(Case& c, index block, Rng& rng) {
  const std::array<index, 4> extents = c.k.view_extents();
  const index batch = extents[0], columns = (extents[1] + block - 1) / block + 1, blocks = batch * columns + 2;
  std::vector<index> order(static_cast<std::size_t>(blocks));
  for (index i = 0; i < blocks; ++i) order[static_cast<std::size_t>(i)] = i;
  std::shuffle(order.begin(), order.end(), rng);
  if (!c.kv_lens.present()) c.kv_lens = Tensor<1>(DType::i32, {batch}).fill(static_cast<double>(extents[1]));
  c.table = Tensor<2>(DType::i32, {batch, columns}).fill(1 << 30);
  const auto place = [&](index b, index j) { return order[static_cast<std::size_t>(b * columns + j / block)]; };
  for (index b = 0; b < batch; ++b)
    for (index i = 0; i * block < static_cast<index>(c.kv_lens.get(b)); ++i)
      c.table.set(b * columns + i, static_cast<double>(place(b, i * block)));
  for (Permuted* t : {&c.k, &c.v}) {
    const std::array<index, 4> from = t->view_extents();
    Permuted paged(t->memory.dtype(), {blocks, block, from[2], from[3]}, {}, t->swapped);
    paged.memory.fill(t->memory.dtype() == DType::i8 ? 99 : nan);
    each_place(from, [&](index b, index j, index h, index d) {
      if (j < static_cast<index>(c.kv_lens.get(b))) paged.set(place(b, j), j % block, h, d, t->get(b, j, h, d));
    });
    *t = paged;
  }
  for (Tensor<4>* t : {&c.k_scale, &c.k_offset, &c.v_scale, &c.v_offset}) {
    if (!t->present() || (t->extents()[0] == 1 && t->extents()[1] == 1)) continue;
    const std::array<index, 4> from{batch, extents[1], t->extents()[2], t->extents()[3]};
    Tensor<4> paged(DType::f32, {blocks, block, from[2], from[3]});
    paged.fill(nan);
    each_place(from, [&](index b, index j, index h, index d) {
      if (j < static_cast<index>(c.kv_lens.get(b)))
        paged.set(((place(b, j) * block + j % block) * from[2] + h) * from[3] + d, broadcast(*t, b, j, h, d));
    });
    *t = paged;
  }
}

INLAY_RUNS_OF(FlashAttention, extern);

}  // namespace inlay::test
