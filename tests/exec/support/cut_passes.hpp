// Recorded passes whose linears two devices compute together, and what they must leave: whole linears by each device,
// of which each element is taken from its own.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/split/split_words.hpp>
#include <inlay/exec/split/step_work.hpp>

#include "tests/exec/support/recorded_passes.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {

template <class Passes> class CutPasses {
 public:
  enum : std::size_t { first_device, second_device };

  // Every linear that these words of SplitWords cut in two.
  CutPasses(Passes& passes, const std::string& words) : passes_(passes) {
    const auto split = SplitWords::parse(words);
    EXPECT_TRUE(split.has_value()) << split.error().message();
    for (index i = 0; i < passes.graph().size(); ++i) {
      const GraphStep& step = steps()[static_cast<std::size_t>(i)];
      if (!step.has_parts()) continue;
      const LinearShape shape = *linear_of(step);
      auto parts = parts_of(split->of(shape), shape, first_device, second_device);
      if (parts.size() > 1) cuts_.push_back({i, std::move(parts)});
    }
    placement_.resize(steps().size(), first_device);
  }

  index cuts() const { return std::ssize(cuts_); }
  index more_steps() const {
    index more = 0;
    for (const LinearCut& cut : cuts_) more += std::ssize(cut.parts) - 1;
    return more;
  }
  const std::vector<std::size_t>& placement() const { return placement_; }

  // One step after the other, before the rewrite.
  template <class First, class Second> std::vector<std::byte> expected(First& first, Second& second) {
    passes_.reset();
    auto cut = cuts_.begin();
    for (index i = 0; i < std::ssize(steps()); ++i) {
      const GraphStep& step = steps()[static_cast<std::size_t>(i)];
      EXPECT_TRUE(inlay::test::ok(first.run(step)));
      if (cut == cuts_.end() || cut->step != i) continue;
      const std::vector<std::vector<std::byte>> of_first = rows_of(step);
      EXPECT_TRUE(inlay::test::ok(second.run(step)));
      take(step, *cut++, of_first);
    }
    return passes_.contents();
  }

  Status rewrite() { return cut_linears(passes_.graph(), placement_, cuts_); }

  // Behind the rewrite: no part waits for another.
  void expect_parts_side_by_side(const Edges& edges) const {
    index more = 0;
    for (const LinearCut& cut : cuts_) {
      const index begin = cut.step + more, end = begin + std::ssize(cut.parts);
      for (index one = begin; one < end; ++one)
        for (index other = one + 1; other < end; ++other)
          EXPECT_FALSE(edges.precedes(one, other)) << "parts of step " << cut.step << " wait for each other";
      more += std::ssize(cut.parts) - 1;
    }
  }

 private:
  // Where the rows of y begin, and how many bytes an element has.
  struct Rows {
    std::byte* begin = nullptr;
    std::ptrdiff_t period = 0, element = 0;
  };
  static Rows y_of(const GraphStep& step) {
    for (const Access& access : step.accesses)
      if (access.writes)
        return {reinterpret_cast<std::byte*>(access.begin),
                access.rows == step.rows ? access.period : access.span / step.rows,
                access.rows * access.span / step.rows / step.width};
    return {};
  }
  static std::vector<std::vector<std::byte>> rows_of(const GraphStep& step) {
    const Rows y = y_of(step);
    std::vector<std::vector<std::byte>> rows;
    for (index row = 0; row < step.rows; ++row)
      rows.emplace_back(y.begin + row * y.period, y.begin + row * y.period + step.width * y.element);
    return rows;
  }
  // The first device's elements, in place of the second one's that y has now.
  static void take(const GraphStep& step, const LinearCut& cut, const std::vector<std::vector<std::byte>>& of_first) {
    const Rows y = y_of(step);
    for (const auto& [part, device] : cut.parts)
      for (index row = part.token; device == first_device && row < part.token + part.tokens; ++row)
        std::memcpy(y.begin + row * y.period + part.channel * y.element,
                    of_first[static_cast<std::size_t>(row)].data() + part.channel * y.element,
                    static_cast<std::size_t>(part.channels * y.element));
  }
  std::span<const GraphStep> steps() const { return std::as_const(passes_.graph()).steps(); }

  Passes& passes_;
  std::vector<LinearCut> cuts_;
  std::vector<std::size_t> placement_;
};

}  // namespace inlay::exec::test
