// What a case of attention is held to, on every backend. A case derives from AttentionCase and has op().
#pragma once

#include <optional>

#include "tests/attention/case.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"

namespace inlay::test {

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

  void compare(const AttentionCase& got, const Allow& allow = {}, const Where& where = Where::current()) const {
    AttentionErrors errors = errors_;
    errors.weights_off = got.weights_off;
    const auto scale = [&](index k) {
      const index r = row(k);
      return errors.of_out(case_.lse.get(r), weights_[static_cast<std::size_t>(r)], case_.out.memory.get(k));
    };
    expect_close(got.out.memory, case_.out.memory, 1, scale, allow, where);
    compare_lse(got, allow);
  }
  void compare_lse(const AttentionCase& got, const Allow& allow = {}) const {
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

}  // namespace inlay::test
