// One case of incre_flash_attention.
#pragma once

#include <inlay/ops/incre_flash_attention.hpp>

#include "tests/attention/judged.hpp"

namespace inlay::test {

struct Case : AttentionCase {
  std::vector<Tensor<3>> k_parts, v_parts;  // instead of k and v
  std::vector<ConstView<3>> k_views, v_views;
  Tensor<2> out_scale, out_offset;
  bool left_padding = false;
  index padding = 0;

  using AttentionCase::AttentionCase;
  explicit Case(const AttentionCase& problem) : AttentionCase(problem) {}

  IncreFlashAttention<Host> op() {
    auto op = common<IncreFlashAttention<Host>>();
    if (!k_parts.empty()) {
      k_views.assign(k_parts.begin(), k_parts.end());
      v_views.assign(v_parts.begin(), v_parts.end());
      op.k = op.v = {};
      op.k_list = k_views, op.v_list = v_views;
    }
    op.kv_lens = kv_lens;
    op.bias = bias, op.mask = of_all_heads(mask);
    op.out_scale = out_scale, op.out_offset = out_offset;
    op.kv_left_padding = left_padding, op.kv_padding = padding;
    return op;
  }

  double largest_key() const {
    double largest = AttentionCase::largest_key();
    for (std::size_t b = 0; b < k_parts.size(); ++b) {
      AttentionCase one = *this;
      one.k = of_part(k_parts[b]);
      for (Tensor<4>* t : {&one.k_scale, &one.k_offset}) *t = of_sequence(*t, static_cast<index>(b));
      largest = std::max(largest, one.largest_key());
    }
    return largest;
  }
  void take_moments(double unit) {
    for (std::size_t b = 0; b < v_parts.size(); ++b) {
      AttentionCase one = *this;
      one.v = of_part(v_parts[b]);
      for (Tensor<4>* t : {&one.v_scale, &one.v_offset}) *t = of_sequence(*t, static_cast<index>(b));
      one.take_moments(unit);
      v_parts[b] = Tensor<3>(DType::f32, {v_parts[b].extents()[0], v_parts[b].extents()[1], moments});
      for (index e = 0; e < v_parts[b].size(); ++e) v_parts[b].set(e, one.v.memory.get(e));
    }
    AttentionCase::take_moments(unit);
    out_scale = out_offset = {};
  }

 private:
  // [batch, 1, queries, slots] without the heads.
  static ConstView<3> of_all_heads(const ConstView<4>& m) {
    if (!m.present()) return {};
    return {m.data, m.dtype, {m.extents[0], m.extents[2], m.extents[3]}, {m.strides[0], m.strides[2], m.strides[3]}};
  }
  static Permuted of_part(const Tensor<3>& part) {
    Permuted one(part.dtype(), {1, part.extents()[0], part.extents()[1], part.extents()[2]});
    for (index e = 0; e < part.size(); ++e) one.memory.set(e, part.get(e));
    return one;
  }
  // What a list's scales say of one of its entries.
  static Tensor<4> of_sequence(const Tensor<4>& scales, index b) {
    if (!scales.present() || scales.extents()[0] == 1) return scales;
    const auto& e = scales.extents();
    Tensor<4> one(DType::f32, {1, e[1], e[2], e[3]});
    for (index i = 0; i < one.size(); ++i) one.set(i, scales.get(b * one.size() + i));
    return one;
  }
};

// The same K and V as one tensor a sequence.
inline void into_lists(Case& c) {
  for (index b = 0; b < c.k.view_extents()[0]; ++b)
    for (const auto& [whole, parts] : {std::pair(&c.k, &c.k_parts), std::pair(&c.v, &c.v_parts)}) {
      const std::array<index, 4> e = whole->view_extents();
      parts->push_back({whole->memory.dtype(), {e[1], e[2], e[3]}, layouts[static_cast<std::size_t>(b % 3)]});
      for (index i = 0; i < parts->back().size(); ++i)
        parts->back().set(i, whole->get(b, i / e[3] / e[2], i / e[3] % e[2], i % e[3]));
    }
}

// What lies outside of each sequence's keys: NaN where the type has one.
inline void poison_unused(Case& c) {
  const IncreFlashAttention<Host> op = c.op();
  const index batch = op.q.extents[0];
  for (index b = 0; b < batch; ++b) {
    const KeyRange used = key_slots(op, b);
    const index slots = op.keys(b).extents[0];
    for (index slot = 0; slot < op.max_slots(); ++slot) {
      if (slot >= used.begin && slot < used.end) continue;
      const auto spoil = [&](Permuted& whole, std::vector<Tensor<3>>& parts, Tensor<4>& scale, Tensor<4>& offset) {
        if (slot < slots && parts.empty()) {
          if (const auto e = whole.view_extents(); whole.memory.dtype() != DType::i8)
            for (index i = 0; i < e[2] * e[3]; ++i) whole.set(b, slot, i / e[3], i % e[3], nan);
        } else if (slot < slots && parts[static_cast<std::size_t>(b)].dtype() != DType::i8) {
          auto& part = parts[static_cast<std::size_t>(b)];
          const index row = part.extents()[1] * part.extents()[2];
          for (index i = 0; i < row; ++i) part.set(slot * row + i, nan);
        }
        for (Tensor<4>* t : {&scale, &offset})
          if (const auto& e = t->extents(); t->present() && e[0] == batch && e[1] > 1)
            for (index i = 0; i < e[2] * e[3]; ++i) t->set((b * e[1] + slot) * e[2] * e[3] + i, nan);
      };
      spoil(c.k, c.k_parts, c.k_scale, c.k_offset);
      spoil(c.v, c.v_parts, c.v_scale, c.v_offset);
    }
  }
}

inline Case make(const ProblemShape& s, Rng& rng, DType type = DType::f32, DType kv = DType::f32,
                 DType out = DType::f32, Layout layout = {}, bool swap = false) {
  Case c(s, rng, type, kv, out, layout, swap);
  if (out == DType::i8) {
    c.out_scale = Tensor<2>(DType::f32, {1, 1}).fill(300);
    c.out_offset = Tensor<2>(DType::f32, {1, 1}).fill(-3);
  }
  return c;
}

INLAY_RUNS_OF(IncreFlashAttention, extern);

}  // namespace inlay::test
