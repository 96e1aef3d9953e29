// The contract of an operator whose case is a problem with more fields: Case(problem), op().
#pragma once

#include "tests/attention/contract.hpp"
#include "tests/attention/judged.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {

template <class Case> class ContractOf : public Contract {
 public:
  explicit ContractOf(std::function<Case(const AttentionCase&)> make) : make_(std::move(make)) {}

  void compare(const AttentionCase& start, const Where& where) const override {
    test::compare(make_(start), nullptr, where);
  }
  void on_every_backend(const Problems& starts, const std::function<void(Problems& got)>& judge) const override {
    std::vector<Case> cases;
    for (const AttentionCase& start : starts) cases.push_back(make_(start));
    everywhere(cases[0], [&](const std::string&, auto run) {
      Problems results;
      for (Case got : cases) {
        SCOPED_TRACE(describe(got.op()));
        ASSERT_TRUE(ok(run(got.op())));
        results.push_back(got);
      }
      judge(results);
    });
  }
  std::unique_ptr<Judge> judge(const AttentionCase& clean, double unit) const override {
    struct Judged : Judge {
      Judged(const Case& clean, double unit) : expected(clean, unit) { EXPECT_TRUE(expected.ran()); }
      const AttentionCase& right() const override { return expected.result(); }
      void compare(const AttentionCase& got, const Allow& allow) const override { expected.compare(got, allow); }
      Expected<Case> expected;
    };
    return std::make_unique<Judged>(make_(clean), unit);
  }
  void compare_flushed(const AttentionCase& start, double unit, double operations) const override {
    const Case c = make_(start);
    const Expected<Case> expected(c, unit);
    with_and_without_flushing(c, [&](const Case&, const Case& got, double lost) {
      expected.compare(got, {.lost = operations * (lost + underflow(DType::f32))});
    });
  }

 private:
  std::function<Case(const AttentionCase&)> make_;
};

}  // namespace inlay::test
