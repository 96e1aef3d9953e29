// A case of moe_routing, and what its results are held to: a computation of its own in double, since where scores are
// nearly equal a backend may choose another expert than the reference.
#pragma once

#include <inlay/ops/moe_routing.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

struct MoeRoutingCase {
  Tensor<2> logits;
  Tensor<1> bias = {};
  Tensor<2> weights, ids, rows;
  Tensor<1> row_tokens, expert_ends;
  MoeScore score = MoeScore::softmax;
  index groups = 1, groups_kept = 1;
  MoeGroupScore group_score = MoeGroupScore::best;
  bool renormalize = false;
  float scale = 1, jitter = 0;

  MoeRouting<Host> op() {
    return {logits, bias,   weights,     ids,         rows,        row_tokens, expert_ends,
            score,  groups, groups_kept, group_score, renormalize, scale,      jitter};
  }
  index tokens() const { return logits.extents()[0]; }
  index experts() const { return logits.extents()[1]; }
  index top_k() const { return weights.extents()[1]; }
  // Logits decide, as they are.
  bool is_exact() const { return !bias.present() && group_score == MoeGroupScore::best; }
};

inline MoeRoutingCase moe_routing_case(DType type, index tokens, index experts, index top_k, Layout layout = {}) {
  MoeRoutingCase c{.logits = {type, {tokens, experts}, layout},
                   .weights = {DType::f32, {tokens, top_k}, {.row_gap = layout.row_gap, .misaligned = 1}},
                   .ids = {DType::i32, {tokens, top_k}, layout},
                   .rows = {DType::i32, {tokens, top_k}, {.row_gap = 2 * layout.row_gap, .misaligned = 0}},
                   .row_tokens = {DType::i32, {tokens * top_k}},
                   .expert_ends = {DType::i32, {experts}}};
  c.weights.poison(), c.ids.poison(), c.rows.poison(), c.row_tokens.poison(), c.expert_ends.poison();
  return c;
}

// s, c, and the values of groups of one token.
struct RoutedToken {
  std::vector<double> logit, score, choice, value;
  bool has_nan = false;
  double largest = 0;

  RoutedToken(const MoeRoutingCase& c, index t) {
    const double most = std::numeric_limits<float>::max();
    const auto held = [&](double v) { return std::isnan(v) ? -most : std::min(most, std::max(-most, v)); };
    for (index e = 0; e < c.experts(); ++e) {
      has_nan |= std::isnan(c.logits.get(t * c.experts() + e));
      logit.push_back(held(c.logits.get(t * c.experts() + e)));
    }
    largest = *std::max_element(logit.begin(), logit.end());
    double sum = 0;
    for (double l : logit) sum += std::exp(l - largest);
    for (double l : logit)
      score.push_back(c.score == MoeScore::softmax ? std::exp(l - largest) / sum : 1 / (1 + std::exp(-l)));
    for (index e = 0; e < c.experts(); ++e)
      choice.push_back(c.bias.present() ? held(score[e] + c.bias.get(e)) : logit[e]);
    const index of_group = c.experts() / c.groups;
    for (index g = 0; g < c.groups; ++g) {
      std::vector<std::pair<double, double>> best;  // c, and what is summed
      for (index e = g * of_group; e < (g + 1) * of_group; ++e)
        best.emplace_back(choice[e], c.bias.present() ? choice[e] : score[e]);
      std::sort(best.rbegin(), best.rend());
      value.push_back(c.group_score == MoeGroupScore::best ? best[0].first : held(best[0].second + best[1].second));
    }
  }
};

// What two scores may be off by in the choice.
inline double choice_slack(const MoeRoutingCase& c, double value) {
  return c.is_exact() ? 0 : 0x1p-20 * std::max(1.0, std::abs(value));
}

// The experts of a token: valid, each once, best first, none left out that is better than the last, of the best groups.
inline void expect_best(const MoeRoutingCase& c, const RoutedToken& of, const std::vector<index>& ids) {
  const index of_group = c.experts() / c.groups;
  std::vector<double> values = of.value;
  std::sort(values.rbegin(), values.rend());
  const double last_kept = values[c.groups_kept - 1];
  std::vector<bool> chosen(static_cast<std::size_t>(c.experts()));
  for (std::size_t j = 0; j < ids.size(); ++j) {
    ASSERT_TRUE(ids[j] >= 0 && ids[j] < c.experts()) << "choice " << j << " is " << ids[j];
    ASSERT_FALSE(chosen[ids[j]]) << "choice " << j << " is expert " << ids[j] << ", twice";
    chosen[ids[j]] = true;
    ASSERT_GE(of.value[ids[j] / of_group], last_kept - choice_slack(c, last_kept)) << "a group that is not kept";
    if (j > 0) {
      const double before = of.choice[ids[j - 1]], here = of.choice[ids[j]];
      ASSERT_LE(here, before + choice_slack(c, before)) << "choice " << j << " is better than the one before it";
      if (c.is_exact() && here == before) {
        ASSERT_LT(ids[j - 1], ids[j]) << "of equals the lower comes first";
      }
    }
  }
  const double worst = of.choice[ids.back()];
  for (index e = 0; e < c.experts(); ++e) {
    const double value = of.value[e / of_group];
    // Kept for certain: of the others so many are worse that it is among those that are kept.
    const auto not_worse = std::count_if(of.value.begin(), of.value.end(),
                                         [&](double other) { return other >= value - choice_slack(c, value); });
    if (chosen[e] || not_worse > c.groups_kept) continue;
    ASSERT_LE(of.choice[e], worst + choice_slack(c, worst)) << "expert " << e << " was left out";
  }
}

// Sparsemixer's: each choice's share among the experts that are left and near it, which f32 says.
inline std::vector<double> shares_among_the_near(const MoeRoutingCase& c, const RoutedToken& of,
                                                 const std::vector<index>& ids) {
  std::vector<double> left = of.logit, shares;
  for (index id : ids) {
    double sum = 0;
    const auto most = static_cast<float>(of.logit[id]);
    for (double each : left) {
      const auto logit = static_cast<float>(each);
      const float distance = most - logit, bound = 2 * c.jitter * std::max(std::abs(logit), most);
      if (std::isfinite(each) && distance <= bound) sum += std::exp(each - of.logit[id]);
    }
    left[id] = -std::numeric_limits<double>::infinity();
    shares.push_back(1 / sum);
  }
  return shares;
}

// Of the chosen experts, in double.
inline std::vector<double> expected_weights(const MoeRoutingCase& c, const RoutedToken& of,
                                            const std::vector<index>& ids) {
  std::vector<double> weights;
  double sum = 0;
  if (c.score == MoeScore::sparsemixer)
    weights = shares_among_the_near(c, of, ids);
  else
    for (index e : ids)
      weights.push_back(c.score == MoeScore::softmax_of_chosen ? std::exp(of.logit[e] - of.logit[ids[0]])
                                                               : of.score[e]);
  for (double w : weights) sum += w;
  const double divisor = c.score == MoeScore::softmax_of_chosen ? sum : c.renormalize ? sum + 1e-20 : 1;
  for (double& w : weights) w = of.has_nan ? std::nan("") : w / divisor * c.scale;
  return weights;
}

// rows, row_tokens and expert_ends are what ids say, to the row.
inline void expect_sorted(const MoeRoutingCase& got) {
  const index top_k = got.top_k(), pairs = got.tokens() * top_k;
  std::vector<index> order(static_cast<std::size_t>(pairs));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](index a, index b) { return got.ids.get(a) < got.ids.get(b); });
  for (index r = 0; r < pairs; ++r) {
    ASSERT_EQ(got.rows.get(order[r]), r) << "rows, of token " << order[r] / top_k << ", choice " << order[r] % top_k;
    ASSERT_EQ(got.row_tokens.get(r), order[r] / top_k) << "row_tokens[" << r << "]";
  }
  index end = 0;
  for (index e = 0; e < got.experts(); ++e) {
    while (end < pairs && got.ids.get(order[end]) == static_cast<double>(e)) ++end;
    ASSERT_EQ(got.expert_ends.get(e), end) << "expert_ends[" << e << "]";
  }
}

// In halves of an ulp: l - max is rounded by one of what it is, exp is off by 3 and sigmoid by 8 at most, quotients,
// products and 1 / sum by 1 each. What a sum of exponentials is off by is a random walk of its roundings, of one chain
// where there are no registers: half the root of their number, and the 3 of an exp on average once.
inline void expect_weights(const MoeRoutingCase& got, const Allow& allow, const Where& where = Where::current()) {
  Tensor<2> expected(DType::f32, {got.tokens(), got.top_k()});
  std::vector<double> distance(static_cast<std::size_t>(expected.size()));
  for (index t = 0; t < got.tokens(); ++t) {
    const RoutedToken of(got, t);
    std::vector<index> ids;
    for (index j = 0; j < got.top_k(); ++j) ids.push_back(static_cast<index>(got.ids.get(t * got.top_k() + j)));
    ASSERT_NO_FATAL_FAILURE(expect_best(got, of, ids)) << "token " << t;
    const std::vector<double> weights = expected_weights(got, of, ids);
    for (index j = 0; j < got.top_k(); ++j) {
      expected.set(t * got.top_k() + j, weights[j]);
      distance[t * got.top_k() + j] = std::min(100.0, of.largest - of.logit[ids[j]]);
    }
  }
  const double root = std::sqrt(static_cast<double>(got.experts())) / 2;
  expect_close(
      got.weights, expected, 1, [&](index k) { return (10 + root + distance[k]) * std::abs(expected.get(k)); }, allow,
      where);
}

inline void expect_routed(const MoeRoutingCase& got, const Allow& allow = {}, const Where& where = Where::current()) {
  ASSERT_NO_FATAL_FAILURE(expect_weights(got, allow, where));
  ASSERT_NO_FATAL_FAILURE(expect_sorted(got));
  EXPECT_TRUE(got.logits.gaps_untouched() && got.weights.gaps_untouched() && got.ids.gaps_untouched() &&
              got.rows.gaps_untouched() && got.row_tokens.gaps_untouched() && got.expert_ends.gaps_untouched());
}

// The reference and every backend.
inline void compare_moe_routing(const MoeRoutingCase& start, const Allow& allow = {},
                                const Where& where = Where::current()) {
  MoeRoutingCase expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  ASSERT_NO_FATAL_FAILURE(expect_routed(expected, allow, where));
  on_every_backend([&](const std::string&, auto run) {
    MoeRoutingCase got = start;
    ASSERT_TRUE(ok(run(got.op())));
    ASSERT_NO_FATAL_FAILURE(expect_routed(got, allow, where));
    if (start.is_exact()) {
      ASSERT_NO_FATAL_FAILURE(expect_equal(got.ids, expected.ids));
    }
  });
}

}  // namespace inlay::test
