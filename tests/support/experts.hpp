// Mixtures of experts: what all experts compute in one operator is, to the bit, what each computes by itself.
#pragma once

#include <numeric>
#include <vector>

#include <inlay/core/backend.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/tensor.hpp"

namespace inlay::test {

// Rows of each expert. In turn: one row for each that has any; one expert; some with nothing to do, the first and the
// last among them; fewer than a tile, and more than several.
inline const std::vector<std::vector<index>> spreads = {
    {1, 0, 0, 1, 0, 1, 1}, {5}, {3, 0, 5, 1}, {0, 9, 0, 20, 0}, {70, 1, 33, 0}, {0, 0, 0, 2}, {2, 2, 2}};

// One behind the other along the first extent; absent where the parts are.
template <int Rank> Tensor<Rank> behind_each_other(const std::vector<Tensor<Rank>>& parts, Layout layout = {}) {
  if (!parts.front().present()) return {};
  auto extents = parts.front().extents();
  extents[0] = 0;
  for (const Tensor<Rank>& part : parts) extents[0] += part.extents()[0];
  Tensor<Rank> all(parts.front().dtype(), extents, layout);
  index at = 0;
  for (const Tensor<Rank>& part : parts)
    for (index i = 0; i < part.size(); ++i) all.set(at++, part.get(i));
  return all;
}
template <class Case, int Rank>
Tensor<Rank> of_all(const std::vector<Case>& apart, Tensor<Rank> Case::*member, Layout layout = {}) {
  std::vector<Tensor<Rank>> parts;
  for (const Case& each : apart) parts.push_back(each.*member);
  return behind_each_other(parts, layout);
}

inline Tensor<1> ends_of(const std::vector<index>& rows) {
  Tensor<1> ends(DType::i32, {static_cast<index>(rows.size())});
  index end = 0;
  for (std::size_t e = 0; e < rows.size(); ++e) ends.set(static_cast<index>(e), static_cast<double>(end += rows[e]));
  return ends;
}

// `all`: the case of all experts, whose op() has `ends`; what stands in y differs where nobody writes.
template <class Case, class Experts> void expect_as_apart(const std::vector<Case>& apart, const Experts& all) {
  const auto compare = [&](auto run) {
    Experts got = all;
    ASSERT_TRUE(ok(run(got.op())));
    EXPECT_TRUE(got.y.gaps_untouched());
    std::vector<Case> each = apart;
    for (Case& one : each) ASSERT_TRUE(ok(run(one.op())));
    expect_equal(got.y, of_all(each, &Case::y));
  };
  Reference reference;
  ASSERT_NO_FATAL_FAILURE(compare([&](const auto& op) { return run(reference, op); }));
  on_every_backend([&](const std::string&, auto run) { compare(run); });
}

}  // namespace inlay::test
