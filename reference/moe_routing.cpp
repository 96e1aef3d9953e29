#include <inlay/ops/moe_routing.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

namespace {

constexpr double largest = std::numeric_limits<float>::max();

// NaN is the lowest.
double held_within_f32(double value) { return std::isnan(value) ? -largest : std::clamp(value, -largest, largest); }

// s and c of the experts of a token.
struct Scores {
  std::vector<double> score, choice;
  bool has_nan = false;
};

Scores scores_of(const MoeRouting<Host>& op, index t) {
  const index experts = op.logits.extents[1];
  Scores all;
  double most = -largest, sum = 0;
  for (index e = 0; e < experts; ++e) {
    const double logit = at(op.logits, t, e);
    all.has_nan |= std::isnan(logit);
    all.choice.push_back(held_within_f32(logit));
    most = std::max(most, all.choice.back());
  }
  all.score = all.choice;
  if (op.score == MoeScore::softmax) {
    for (double& s : all.score) sum += s = std::exp(s - most);
    for (double& s : all.score) s /= sum;
  } else if (op.score == MoeScore::sigmoid) {
    for (double& s : all.score) s = 1 / (1 + std::exp(-s));
  }
  if (op.bias.present())
    for (index e = 0; e < experts; ++e) all.choice[e] = held_within_f32(all.score[e] + at(op.bias, e));
  return all;
}

// The numbers of the `count` largest values, largest first; of equals the lower.
std::vector<index> largest_of(const std::vector<double>& values, std::vector<index> among, index count) {
  std::partial_sort(among.begin(), among.begin() + count, among.end(),
                    [&](index a, index b) { return values[a] > values[b] || (values[a] == values[b] && a < b); });
  among.resize(static_cast<std::size_t>(count));
  return among;
}

std::vector<index> numbers(index begin, index count) {
  std::vector<index> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

std::vector<index> chosen_by(const MoeRouting<Host>& op, const Scores& of) {
  const index of_group = op.logits.extents[1] / op.groups;
  std::vector<double> values;
  for (index g = 0; g < op.groups; ++g) {
    const bool best = op.group_score == MoeGroupScore::best;
    double value = 0;
    for (index e : largest_of(of.choice, numbers(g * of_group, of_group), best ? 1 : 2))
      value += best || op.bias.present() ? of.choice[e] : of.score[e];
    values.push_back(held_within_f32(value));
  }
  std::vector<index> experts;
  for (index g : largest_of(values, numbers(0, op.groups), op.groups_kept))
    for (index e : numbers(g * of_group, of_group)) experts.push_back(e);
  return largest_of(of.choice, experts, op.weights.extents[1]);
}

// Each choice's share among the experts that are left and near it. Who is near is a matter of f32.
std::vector<double> weights_among_the_near(const MoeRouting<Host>& op, const Scores& of,
                                           const std::vector<index>& chosen) {
  std::vector<double> weights;
  std::vector<bool> taken(of.choice.size());
  for (index c : chosen) {
    const auto largest = static_cast<float>(of.choice[c]);
    double sum = 0;
    for (std::size_t e = 0; e < taken.size(); ++e) {
      const auto logit = static_cast<float>(of.choice[e]);
      const float distance = largest - logit, bound = 2 * op.jitter * std::max(std::abs(logit), largest);
      if (!taken[e] && !(distance > bound)) sum += std::exp(of.choice[e] - of.choice[c]);
    }
    taken[c] = true;
    weights.push_back(1 / sum);
  }
  return weights;
}

// In the order of `chosen`.
std::vector<double> weights_of(const MoeRouting<Host>& op, const Scores& of, const std::vector<index>& chosen) {
  std::vector<double> weights;
  double sum = 0, rescaled = 0;
  if (op.score == MoeScore::sparsemixer)
    weights = weights_among_the_near(op, of, chosen);
  else
    for (index e : chosen)
      weights.push_back(op.score == MoeScore::softmax_of_chosen ? std::exp(of.score[e] - of.score[chosen[0]])
                                                                : of.score[e]);
  for (double w : weights) sum += w;
  if (op.score == MoeScore::softmax_of_chosen)
    for (double& w : weights) w /= sum;
  for (double w : weights) rescaled += w;
  for (double& w : weights) {
    if (op.renormalize) w /= rescaled + 1e-20;
    w = of.has_nan ? std::numeric_limits<double>::quiet_NaN() : w * op.scale;
  }
  return weights;
}

}  // namespace

template <> Status compute(const MoeRouting<Host>& op) {
  const index tokens = op.logits.extents[0], top_k = op.weights.extents[1];
  std::vector<std::vector<index>> tokens_of(static_cast<std::size_t>(op.logits.extents[1]));
  std::vector<std::vector<index>> choice_of = tokens_of;
  for (index t = 0; t < tokens; ++t) {
    const Scores of = scores_of(op, t);
    const std::vector<index> chosen = chosen_by(op, of);
    const std::vector<double> weights = weights_of(op, of, chosen);
    for (index j = 0; j < top_k; ++j) {
      put(op.ids, t, j, static_cast<double>(chosen[j]));
      put(op.weights, t, j, weights[j]);
      tokens_of[chosen[j]].push_back(t);
      choice_of[chosen[j]].push_back(j);
    }
  }
  index row = 0;
  for (std::size_t e = 0; e < tokens_of.size(); ++e) {
    for (std::size_t i = 0; i < tokens_of[e].size(); ++i, ++row) {
      put(op.rows, tokens_of[e][i], choice_of[e][i], static_cast<double>(row));
      put(op.row_tokens, row, static_cast<double>(tokens_of[e][i]));
    }
    put(op.expert_ends, static_cast<index>(e), static_cast<double>(row));
  }
  return {};
}

}  // namespace inlay::reference
