#include <inlay/ops/sampling.hpp>

#include <algorithm>
#include <map>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>
#include <inlay/core/entries.hpp>
#include <inlay/core/philox.hpp>

namespace inlay::reference {

namespace {

struct Token {
  index id;
  float logit;
  double p = 0;
};
using Tokens = std::vector<Token>;

constexpr float infinity = std::numeric_limits<float>::infinity();

bool likelier(const Token& a, const Token& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

void softmax(Tokens& tokens, double temperature) {
  const float most = std::min_element(tokens.begin(), tokens.end(), likelier)->logit;
  double sum = 0;
  for (Token& t : tokens) {
    const double z = (static_cast<double>(t.logit) - most) / temperature;
    sum += t.p = z < -708 ? 0 : std::exp(z);
  }
  for (Token& t : tokens) t.p /= sum;
}

void renormalise(Tokens& tokens) {
  double sum = 0;
  for (const Token& t : tokens) sum += t.p;
  for (Token& t : tokens) t.p /= sum;
}

// The first tokens in the order of `before`, until their probabilities reach `mass`.
template <class Before> void keep_mass(Tokens& tokens, double mass, Before&& before) {
  std::sort(tokens.begin(), tokens.end(), before);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < tokens.size() && (kept == 0 || sum < mass)) sum += tokens[kept++].p;
  tokens.resize(kept);
  renormalise(tokens);
}

void penalise(const Sampling<Host>& op, index r, std::vector<float>& logits) {
  if (!op.history.present()) return;
  std::map<index, index> counts;  // in the output; 0 for a token of the prompt alone
  for (index i = 0; i < op.history.extents[1]; ++i)
    if (const double id = at(op.history, r, i); id >= 0) counts[static_cast<index>(id)] += i >= output_begin(op, r);
  for (const auto& [id, count] : counts) {
    float& v = logits[id];
    v = v > 0 ? v / op.repetition_penalty : v * op.repetition_penalty;
    if (count > 0) v = v - (static_cast<float>(count) * op.frequency_penalty + op.presence_penalty);
  }
}

void keep_sigma(Tokens& tokens, double n) {
  double mean = 0, variance = 0;
  for (const Token& t : tokens) mean += t.logit;
  mean /= static_cast<double>(tokens.size());
  for (const Token& t : tokens) variance += (t.logit - mean) * (t.logit - mean);
  const double sigma = std::sqrt(variance / static_cast<double>(tokens.size()));
  const float most = std::min_element(tokens.begin(), tokens.end(), likelier)->logit;
  std::erase_if(tokens, [&](const Token& t) { return t.logit < most - n * sigma; });
}

void keep_typical(Tokens& tokens, double mass) {
  double entropy = 0;
  for (const Token& t : tokens)
    if (t.p > 0) entropy -= t.p * std::log(t.p);
  const auto surprise = [&](const Token& t) { return std::abs(-std::log(t.p) - entropy); };
  keep_mass(tokens, mass, [&](const Token& a, const Token& b) {
    return surprise(a) != surprise(b) ? surprise(a) < surprise(b) : likelier(a, b);
  });
}

void drop_top_choices(Tokens& tokens, double threshold) {
  std::sort(tokens.begin(), tokens.end(), likelier);
  std::size_t top = 0;
  while (top < tokens.size() && tokens[top].p >= threshold) ++top;
  if (top >= 2) tokens.erase(tokens.begin(), tokens.begin() + static_cast<index>(top - 1));
  renormalise(tokens);
}

// The distribution of a row, or none where the row has no token to draw.
Tokens distribution(const Sampling<Host>& op, index r, double u_xtc) {
  std::vector<float> logits(static_cast<std::size_t>(op.logits.extents[1]));
  for (index i = 0; i < op.logits.extents[1]; ++i) logits[i] = static_cast<float>(at(op.logits, r, i));
  penalise(op, r, logits);
  Tokens tokens;
  for (index i = 0; i < op.logits.extents[1]; ++i) {
    if (std::isnan(logits[i]) || logits[i] == infinity) return {};
    if (logits[i] > -infinity) tokens.push_back({i, logits[i]});
  }
  if (tokens.empty()) return {};
  const auto greedy = [&] { tokens = {{std::min_element(tokens.begin(), tokens.end(), likelier)->id, 0, 1}}; };
  if (op.temperature == 0 && !op.temperature_last) {
    greedy();
    return tokens;
  }
  if (op.top_n_sigma > 0) keep_sigma(tokens, op.top_n_sigma);
  std::sort(tokens.begin(), tokens.end(), likelier);
  if (op.top_k > 0 && op.top_k < static_cast<index>(tokens.size())) tokens.resize(static_cast<std::size_t>(op.top_k));
  softmax(tokens, op.temperature_last ? 1 : op.temperature);
  std::erase_if(tokens, [](const Token& t) { return t.p == 0; });
  if (op.typical_p < 1) keep_typical(tokens, op.typical_p);
  if (op.top_p < 1) keep_mass(tokens, op.top_p, likelier);
  const double most = std::min_element(tokens.begin(), tokens.end(), likelier)->p;
  std::erase_if(tokens, [&](const Token& t) { return t.p < op.min_p * most; });
  renormalise(tokens);
  if (u_xtc < op.xtc_probability) drop_top_choices(tokens, op.xtc_threshold);
  if (op.temperature_last) {
    if (op.temperature == 0)
      greedy();
    else
      softmax(tokens, op.temperature);
  }
  return tokens;
}

}  // namespace

template <> Status compute(const Sampling<Host>& op) {
  for (index r = 0; r < op.logits.extents[0]; ++r) {
    const SamplingNumbers numbers = sampling_numbers(op, r);
    Tokens tokens = distribution(op, r, numbers.xtc);
    std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) { return a.id < b.id; });
    if (op.probs.present()) {
      for (index i = 0; i < op.logits.extents[1]; ++i) put(op.probs, r, i, 0);
      for (const Token& t : tokens) put(op.probs, r, t.id, t.p);
    }
    double sum = 0;
    index drawn = -1;
    for (const Token& t : tokens) {
      if (sum > numbers.draw) break;
      sum += t.p;
      if (t.p > 0) drawn = t.id;
    }
    put(op.tokens, r, static_cast<double>(drawn));
  }
  return {};
}

}  // namespace inlay::reference
