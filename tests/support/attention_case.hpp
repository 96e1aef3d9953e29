// What the cases of flash_attention and incre_flash_attention share. A case has everything that it needs, so that
// backends start from the same bytes; each operator derives its own, with op(). What is optional is absent at first,
// but for the scales of an int8 K and V.
#pragma once

#include <limits>
#include <optional>

#include "cpu_kernels/attention/sizes.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"

namespace inlay::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr std::array ids_types{DType::i32, DType::i64};
inline constexpr std::array kv_dtypes{DType::f32, DType::f16, DType::bf16, DType::i8};

struct Shape {
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

struct AttentionCase {
  Permuted q, k, v, out;
  Tensor<3> lse;
  Tensor<1> alibi, sinks;
  Tensor<4> k_scale, k_offset, v_scale, v_offset;
  float scale = 0, softcap = 0;
  BiasOrder order = BiasOrder::scale_bias_softcap;
  bool causal = false;
  index left = -1;
  index unwritten = 0;     // rows behind the last sequence, which stay as they are
  index longest;           // most keys of a sequence
  double weights_off = 0;  // by bf16_products, which the CPU alone makes use of

  AttentionCase(const Shape& s, Rng& rng, DType type, DType kv, DType out_type, Layout layout, bool swap)
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
    Op op{.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .lse = lse};
    op.alibi_slopes = alibi, op.sinks = sinks;
    op.k_scale = k_scale, op.k_offset = k_offset;
    op.v_scale = v_scale, op.v_offset = v_offset;
    op.scale = scale, op.softcap = softcap, op.bias_order = order;
    op.causal = causal, op.window_left = left;
    return op;
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
    out = Permuted(DType::f32, {outs[0], outs[1], outs[2], moments});
  }
  static constexpr index moments = 32;
};

template <class Case> AttentionErrors errors_of(const Case& c) {
  const index dim = c.q.view_extents()[3];
  const double scale = c.scale != 0 ? std::abs(c.scale) : 1 / std::sqrt(static_cast<double>(dim));
  LargestRow q;
  for (index e = 0; e < c.q.memory.size(); ++e) q.add(e % dim, c.q.memory.get(e));
  return {static_cast<double>(dim), static_cast<double>(c.longest), scale * q.length() * c.largest_key(),
          c.weights_off};
}

// What a case is held to: its result before it is rounded, and what its errors follow from. `unit`: of V, where its
// squares are too small for f32.
template <class Case> class Expected {
 public:
  explicit Expected(const Case& start, double unit = 1) : case_(start), errors_(errors_of(start)) {
    Reference reference;
    case_.out.memory = start.out.memory.widened();
    ok_ = ok(run(reference, case_.op()));
    Case moments = start;
    moments.take_moments(unit);
    if (ok_) ok_ = ok(run(reference, moments.op()));
    constexpr index count = Case::moments;
    for (index r = 0; r < case_.lse.size(); ++r) {
      const auto moment = [&](index d) { return moments.out.memory.get(r * count + d); };
      double squares = 0;
      for (index d = 2; d < count; ++d) squares += moment(d) * moment(d) / (count - 2);
      weights_.push_back({moment(1), std::sqrt(squares), unit * std::sqrt(moment(0) / moment(1))});
    }
  }
  const Case& result() const { return case_; }
  const ::testing::AssertionResult& ran() const { return ok_; }

  void compare(const Case& got, const Allow& allow = {}, const Where& where = Where::current()) const {
    AttentionErrors errors = errors_;
    errors.weights_off = got.weights_off;
    const auto scale = [&](index k) {
      const index r = row(k);
      return errors.of_out(case_.lse.get(r), weights_[static_cast<std::size_t>(r)], case_.out.memory.get(k));
    };
    expect_close(got.out.memory, case_.out.memory, 1, scale, allow, where);
    compare_lse(got, allow);
  }
  void compare_lse(const Case& got, const Allow& allow = {}) const {
    const auto scale = [&](index r) { return errors_.of_lse(case_.lse.get(r), weights_[static_cast<std::size_t>(r)]); };
    expect_close(got.lse, case_.lse, 1, scale, allow);
  }

 private:
  // The row of lse that element k of out belongs to.
  index row(index k) const {
    const std::array<index, 4> extents = case_.out.view_extents();
    const index queries = extents[1], heads = extents[2], r = k / extents[3];
    if (!case_.out.swapped) return r;
    return (r / queries / heads * queries + r % queries) * heads + r / queries % heads;
  }

  Case case_;
  AttentionErrors errors_;
  std::vector<RowWeights> weights_;
  ::testing::AssertionResult ok_ = ::testing::AssertionSuccess();
};

// NaN stands exactly where nothing is to be written. Codes hold none: two runs over different bytes must agree.
template <class Case, class Run> void expect_written(const Case& start, const Case& after, Run&& run) {
  if (start.out.memory.dtype() != DType::i8) {
    index untouched = 0;
    for (index k = 0; k < after.out.memory.size(); ++k) untouched += std::isnan(after.out.memory.get(k));
    const auto& extents = after.out.view_extents();
    EXPECT_EQ(untouched, start.unwritten * extents[2] * extents[3]);
  } else {
    Case other = start;
    other.out.memory.fill(42);
    ASSERT_TRUE(ok(run(other.op())));
    expect_equal(other.out.memory, after.out.memory);
  }
  index untouched = 0;
  for (index k = 0; k < after.lse.size(); ++k) untouched += std::isnan(after.lse.get(k));
  EXPECT_EQ(untouched, start.unwritten * after.lse.extents()[2]);
}

// Backends that may compute `of` in another way than others.
template <class Case, class Test> void everywhere(const Case& of, Test&& test) {
  of.weights_off > 0 ? on_every_cpu(test) : on_every_backend(test);
}

// `integers` judges int8 outputs.
template <class Case>
void compare(const Case& start, RoundedIntegers* integers = nullptr, const Where& where = Where::current()) {
  const Expected<Case> expected(start);
  Case described = start;
  SCOPED_TRACE(describe(described.op()));
  ASSERT_TRUE(expected.ran());
  Reference reference;
  ASSERT_NO_FATAL_FAILURE(expect_written(start, expected.result(), [&](const auto& op) { return run(reference, op); }));
  std::optional<Case> first;  // of this level: all numbers of threads give its bits
  std::string level;
  everywhere(start, [&](const std::string& label, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    const Allow allow{.nan = start.unwritten > 0};
    if (const std::string now = label.substr(0, label.find(',')); now != level) {
      level = now;
      first = got;
      if (got.out.memory.dtype() == DType::i8) {
        ASSERT_NE(integers, nullptr);
        ASSERT_NO_FATAL_FAILURE(integers->expect(got.out.memory, expected.result().out.memory));
        expected.compare_lse(got, allow);
      } else if (start.weights_off > 0 && !multiplies_bf16(label)) {  // it rounds nothing, and is forgiven nothing
        Case exact = got;
        exact.weights_off = 0;
        expected.compare(exact, allow);
      } else {
        expected.compare(got, allow, where);
      }
      expect_written(start, got, run);
      EXPECT_TRUE(got.out.memory.gaps_untouched());
    } else {
      expect_equal(got.out.memory, first->out.memory, {.nan = true});
      expect_equal(got.lse, first->lse, {.nan = true});
      EXPECT_TRUE(got.out.memory.gaps_untouched());
    }
  });
}

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

// make(shape, rng) gives a case; a key of zeros scores exactly 0.
template <class Make> void compare_extreme_softcaps(Make&& make) {
  Rng rng(41);
  for (float softcap : extreme_softcaps) {
    auto c = make(Shape{.queries = 3, .keys = 70, .kv_heads = 1, .group = 2, .dim = 12, .v_dim = 20}, rng);
    for (index d = 0; d < 12; ++d) c.k.set(0, 5, 0, d, 0);
    c.softcap = softcap;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
  // The largest scores at half the cap, where tanh bends: what is off in its polynomial is so by 60 times as much.
  auto c = make(Shape{.queries = 3, .keys = 70, .kv_heads = 1, .group = 2, .dim = 12, .v_dim = 20}, rng);
  c.softcap = 60, c.scale = 10;
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

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
