// One problem of attention, with everything that it needs, so that backends start from the same bytes.
#pragma once

#include "cpu_kernels/attention/sizes.hpp"
#include "tests/attention/errors.hpp"

namespace inlay::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr std::array ids_types{DType::i32, DType::i64};
inline constexpr std::array kv_dtypes{DType::f32, DType::f16, DType::bf16, DType::i8};

struct ProblemShape {
  index batch = 1, queries = 1, keys = 1, kv_heads = 1, group = 1, dim = 64, v_dim = 64;
};

// Element [a, b, c, d] of a view whose extents of 1 are broadcast.
inline double broadcast(const Tensor<4>& t, index a, index b, index c, index d) {
  const auto& e = t.extents();
  const auto at = [&](int i, index x) { return e[i] == 1 ? 0 : x; };
  return t.get(((at(0, a) * e[1] + at(1, b)) * e[2] + at(2, c)) * e[3] + at(3, d));
}

// (x + offset) * scale
inline double plain(double x, const Tensor<4>& scale, const Tensor<4>& offset, index a, index b, index c, index d) {
  if (!scale.present()) return x;
  return (x + (offset.present() ? broadcast(offset, a, b, c, d) : 0)) * broadcast(scale, a, b, c, d);
}

// A problem of attention, in the words of no operator: q, k and v, what biases and hides, and where the result goes.
// contract.hpp says how an operator is given it. What is optional is absent at first, but for the scales of an int8 K
// and V.
struct AttentionCase {
  Permuted q, k, v, out;
  Tensor<3> lse;
  Tensor<1> alibi, sinks;
  Tensor<4> k_scale, k_offset, v_scale, v_offset;
  Tensor<1> kv_lens;     // of each sequence; absent: all its rows
  Tensor<4> bias, mask;  // [batch|1, heads|1, queries|1, keys]
  float scale = 0, softcap = 0;
  BiasOrder order = BiasOrder::scale_bias_softcap;
  bool causal = false;
  index left = -1;
  bool with_lse = true;
  bool v_inside_k = false;  // V is given as the first dims of K, which `v` holds too
  int form = 0;             // in which the operator is given it: one of Contract::forms
  index unwritten = 0;      // rows behind the last sequence, which stay as they are
  index longest;            // most keys of a sequence
  double weights_off = 0;   // by bf16_products, which the CPU alone makes use of

  AttentionCase(const ProblemShape& s, Rng& rng, DType type, DType kv, DType out_type, Layout layout, bool swap)
      : q(type, {s.batch, s.queries, s.kv_heads * s.group, s.dim}, layout, swap),
        k(kv, {s.batch, s.keys, s.kv_heads, s.dim}, layout, swap),
        v(kv, {s.batch, s.keys, s.kv_heads, s.v_dim}, layout, swap),
        out(out_type, {s.batch, s.queries, s.kv_heads * s.group, s.v_dim}, layout, swap),
        lse(DType::f32, {s.batch, s.queries, s.kv_heads * s.group}),
        longest(s.keys) {
    q.memory.uniform(rng);
    fill_kv(k.memory, rng);
    fill_kv(v.memory, rng);
    if (kv == DType::i8) k_scale = v_scale = Tensor<4>(DType::f32, {1, 1, 1, 1}).fill(1.0 / 128);
    out.memory.poison();
    lse.poison();
  }

  // The operator with what both call by the same name.
  template <class Op> Op common() {
    Op op{.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view()};
    if (with_lse) op.lse = lse;
    if (v_inside_k) op.v = op.k.slice(3, 0, v.view_extents()[3]);
    op.alibi_slopes = alibi, op.sinks = sinks;
    op.k_scale = k_scale, op.k_offset = k_offset;
    op.v_scale = v_scale, op.v_offset = v_offset;
    op.scale = scale, op.softcap = softcap, op.bias_order = order;
    op.causal = causal, op.window_left = left;
    return op;
  }

  // NaN behind the keys of each sequence, where the type has one, and in the scales of tokens there.
  void spoil_unused() {
    if (!kv_lens.present()) return;
    const auto spoil = [&](auto&& extents, auto&& set) {
      each_place(extents, [&](index b, index j, index h, index d) {
        if (j >= static_cast<index>(kv_lens.get(kv_lens.size() == 1 ? 0 : b))) set(b, j, h, d);
      });
    };
    for (Permuted* t : {&k, &v})
      if (t->memory.dtype() != DType::i8)
        spoil(t->view_extents(), [&](index b, index j, index h, index d) { t->set(b, j, h, d, nan); });
    for (Tensor<4>* t : {&k_scale, &k_offset, &v_scale, &v_offset})
      if (const auto& e = t->extents(); t->present() && e[0] == q.view_extents()[0] && e[1] > 1)
        spoil(e, [&](index b, index j, index h, index d) { t->set(((b * e[1] + j) * e[2] + h) * e[3] + d, nan); });
  }

  // The length of the largest row of K, with what an offset adds to its products.
  double largest_key() const {
    LargestRow largest;
    each_place(k.view_extents(), [&](index a, index b, index c, index d) {
      const double offset = k_offset.present() ? broadcast(k_offset, a, b, c, d) : 0;
      largest.add(d, plain(std::abs(k.get(a, b, c, d)) + std::abs(offset), k_scale, {}, a, b, c, d));
    });
    return largest.length();
  }
  // The same weights over other values: the mean square of each row of V, counted in `unit`, one, and random signs.
  void take_moments(double unit) {
    Rng rng(1);
    const std::array<index, 4> extents = v.view_extents(), outs = out.view_extents();
    Permuted other(DType::f32, {extents[0], extents[1], extents[2], moments});
    each_place({extents[0], extents[1], extents[2], 1}, [&](index a, index b, index c, index) {
      double square = 0;
      for (index d = 0; d < extents[3]; ++d) {
        const double x = plain(v.get(a, b, c, d), v_scale, v_offset, a, b, c, d) / unit;
        square += x * x / static_cast<double>(extents[3]);
      }
      other.set(a, b, c, 0, square);
      const std::uint64_t bits = rng();
      for (index d = 1; d < moments; ++d) other.set(a, b, c, d, d == 1 || (bits >> d & 1) ? 1 : -1);
    });
    v = other;
    v_scale = v_offset = {};
    v_inside_k = false;
    out = Permuted(DType::f32, {outs[0], outs[1], outs[2], moments});
  }
  static constexpr index moments = 32;
};

// Numbers, choices and chances of a random case.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : rng(seed) {}
  index operator()(index low, index high) { return std::uniform_int_distribution<index>(low, high)(rng); }
  bool chance(int of) { return (*this)(1, of) == 1; }
  template <class List> auto of(const List& list) {
    return list[static_cast<std::size_t>((*this)(0, static_cast<index>(std::size(list)) - 1))];
  }

  Rng rng;
};

// Scores rise, or fall, with the key: dim 0 of q is 1, that of K goes from nothing to its largest.
template <class Case> void drift(Case& c, bool rising) {
  const double largest = c.k.memory.dtype() == DType::i8 ? 127 : 12;
  each_place(c.q.view_extents(), [&](index a, index b, index h, index d) {
    if (d == 0) c.q.set(a, b, h, 0, rising ? 1 : -1);
  });
  const std::array<index, 4> extents = c.k.view_extents();
  each_place(extents, [&](index a, index j, index h, index d) {
    if (d == 0) c.k.set(a, j, h, 0, largest * static_cast<double>(j) / static_cast<double>(extents[1]));
  });
}

// ALiBi with which all of `keys` count.
inline Tensor<1> slight_slopes(index heads, index keys, Rng& rng) {
  return Tensor<1>(DType::f32, {heads}).uniform(rng, -4 / static_cast<double>(keys), 4 / static_cast<double>(keys));
}

// Keys of three splits, the last one begun by a few.
constexpr index keys_of_three(index split) { return 2 * split + cpu::key_tile + 3; }

// Lengths around tiles and the ends of splits, up to `most`.
inline std::vector<index> lengths_around(index split, index most) {
  std::vector<index> lengths;
  for (index middle : {index{0}, cpu::row_tile, cpu::lane_pad, cpu::key_tile, split, 2 * split, 3 * split})
    for (index length : {middle - 1, middle, middle + 1})
      if (length >= 0 && length <= most && (middle != 0 || length <= 1)) lengths.push_back(length);
  return lengths;
}

// Windows that end in a tile, at its ends, and around the ends of splits.
inline std::vector<index> windows_around(index split, index keys) {
  std::vector<index> windows;
  for (index window : {index{0}, index{1}, index{5}, cpu::key_tile - 1, cpu::key_tile, cpu::key_tile + 6, split - 1,
                       split, split + 1, 2 * split})
    if (window <= keys + 1) windows.push_back(window);
  return windows;
}

}  // namespace inlay::test
