// How one operator of attention is given a problem: what the rules of tests/attention need to know of it. A rule is
// compiled once, over problems alone; an operator's program says INSTANTIATE_TEST_SUITE_P for its contracts.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/attention/case.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

// What is right for one problem, and how far from it a backend may be.
class Judge {
 public:
  virtual ~Judge() = default;
  virtual const AttentionCase& right() const = 0;  // as the reference has it, before it is rounded
  virtual void compare(const AttentionCase& got, const Allow& allow = {}) const = 0;
};

class Contract {
 public:
  using Problems = std::vector<AttentionCase>;

  virtual ~Contract() = default;

  std::string name;
  index max_queries;  // of a sequence
  int forms = 1;      // in which it may be given one problem: AttentionCase::form is one of them
  bool masks_of_heads = false;
  index split;                // keys, after which a partial result begins
  ProblemShape three;         // a problem of three splits, the last one begun by a few keys
  index rising_dim;           // three.dim where scores rise: kernels choose by it
  std::vector<index> groups;  // around the rows of a kv head that share a task, and that a task has

  // The problem on every backend and every number of threads, against the reference.
  virtual void compare(const AttentionCase& start, const Where& where = Where::current()) const = 0;
  // Each backend with every one of the problems, and then judge(what it made of them).
  virtual void on_every_backend(const Problems& starts, const std::function<void(Problems& got)>& judge) const = 0;
  // `unit`: of V, where its squares are too small for f32.
  virtual std::unique_ptr<Judge> judge(const AttentionCase& clean, double unit = 1) const = 0;
  // On threads that flush subnormals, which may take `lost` of them from each result, and on threads that do not.
  virtual void compare_flushed(const AttentionCase& start, double unit, double operations) const = 0;
};

// The rules for every contract.
class Attention : public ::testing::TestWithParam<const Contract*> {
 protected:
  const Contract& contract() const { return *GetParam(); }
  index up_to(index queries) const { return std::min(queries, contract().max_queries); }
  // A problem in the form whose turn it is.
  AttentionCase problem(const ProblemShape& shape, Rng& rng, DType type = DType::f32, DType kv = DType::f32,
                        DType out = DType::f32, Layout layout = {}, bool swap = false) {
    AttentionCase c(shape, rng, type, kv, out, layout, swap);
    c.form = turn_++ % contract().forms;
    return c;
  }
  void compare(const AttentionCase& start, const Where& where = Where::current()) const {
    contract().compare(start, where);
  }
  // each(got) for what every backend makes of `start`.
  void on_every_backend(const AttentionCase& start, const std::function<void(AttentionCase& got)>& each) const {
    contract().on_every_backend({start}, [&](Contract::Problems& got) { each(got[0]); });
  }
  // The problem of three splits in which the largest scores come last, or first, and what `change` makes of it.
  void over_three_splits(DType kv, const std::function<void(AttentionCase&, Rng&)>& change,
                         const Where& where = Where::current()) {
    for (bool rising : {false, true}) {
      Rng rng(rising);
      ProblemShape shape = contract().three;
      if (rising) shape.dim = contract().rising_dim;
      AttentionCase c = problem(shape, rng, DType::f32, kv);
      drift(c, rising);
      change(c, rng);
      ASSERT_NO_FATAL_FAILURE(compare(c, where));
    }
  }

 private:
  int turn_ = 0;
};

// The rules for those that are given a bias and a mask for each pair of a query and a key, and offsets of int8.
class AttentionPairs : public Attention {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Attention);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionPairs);

inline std::string name_of(const ::testing::TestParamInfo<const Contract*>& info) { return info.param->name; }

}  // namespace inlay::test
