#include "tools/tune/tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "measure/timing.hpp"

namespace inlay::tools {

namespace {

// The first line of a message and, of a compiler's words behind it, the first error.
std::string in_short(std::string_view text) {
  const auto line_at = [&](std::size_t at) { return std::string(text.substr(at, text.find('\n', at) - at)); };
  const std::size_t error = text.find("error: ", std::min(text.find('\n'), text.size()));
  return line_at(0) + (error == std::string_view::npos ? "" : " " + line_at(error));
}

// Drops values that fail; those that are left, the usual one first.
Expected<std::vector<int>> proven(const Question& question, const Cases& cases, Answer& answer) {
  std::vector<int> left;
  std::vector<std::vector<std::byte>> usual(cases.size());
  std::vector<int> order = question.values;
  std::stable_partition(order.begin(), order.end(), [&](int value) { return value == question.usual; });
  for (int value : order) {
    if (Status status = question.choose(value); !status.ok()) return failure(std::move(status));
    std::string reason;
    for (std::size_t i = 0; i < cases.size() && reason.empty(); ++i) {
      const Status status = cases[i]->prove();
      if (!status.ok()) reason = cases[i]->what() + ": " + in_short(status.message());
      if (value == question.usual)
        usual[i] = cases[i]->result();
      else if (reason.empty() && question.same_bits && cases[i]->result() != usual[i])
        reason = cases[i]->what() + ": other bits than with " + std::to_string(question.usual);
    }
    if (reason.empty())
      left.push_back(value);
    else
      answer.dropped.push_back({value, reason});
    if (!reason.empty() && value == question.usual) break;  // there is nothing to compare with
  }
  return left;
}

// What a value did beside the usual one, which is values[0].
struct Beside {
  std::vector<double> usual_seconds, ratio;  // of each case; ratio: time / usual time
  double mean() const {
    double sum = 0;
    for (double one : ratio) sum += std::log(one);
    return std::exp(sum / static_cast<double>(ratio.size()));
  }
  double worst() const { return *std::ranges::max_element(ratio); }
};

// Medians of ratios taken within a round: what disturbs the machine longer than that disturbs both sides of one.
Expected<std::vector<Beside>> measured(const Question& question, const Cases& cases, const std::vector<int>& values,
                                       const Effort& effort, double seconds) {
  // [value][case][round]
  std::vector<std::vector<std::vector<double>>> all(values.size(), std::vector<std::vector<double>>(cases.size()));
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (int round = 0; round < effort.min_rounds || passed() < seconds; ++round)
    for (std::size_t i = 0; i < cases.size(); ++i)
      for (std::size_t turn = 0; turn < values.size(); ++turn) {
        const std::size_t v = (turn + static_cast<std::size_t>(round)) % values.size();
        if (Status status = question.choose(values[v]); !status.ok()) return failure(std::move(status));
        auto time = cases[i]->seconds(effort.batch);
        if (!time) return failure(std::move(time.error()));
        all[v][i].push_back(*time);
      }
  std::vector<Beside> results(values.size());
  for (std::size_t v = 0; v < values.size(); ++v)
    for (std::size_t i = 0; i < cases.size(); ++i) {
      std::vector<double> ratios = all[v][i];
      for (std::size_t round = 0; round < ratios.size(); ++round) ratios[round] /= all[0][i][round];
      results[v].usual_seconds.push_back(measure::median(all[0][i]));
      results[v].ratio.push_back(measure::median(ratios));
    }
  return results;
}

}  // namespace

Question question_of(Cl& cl, const ClParameter& parameter) {
  Question question{std::string(parameter.op), std::string(parameter.name), {}, 0, parameter.same_bits, {}};
  question.usual = cl.tuned(parameter.op, parameter.name).value_or(0);
  const auto values = parameter.of(cl.options().shape).list();
  question.values.assign(values.begin(), values.end());
  question.choose = [&cl, &parameter](int value) { return cl.tune(parameter.op, parameter.name, value); };
  return question;
}

Expected<Answer> tune(const Question& question, const Cases& cases, const Effort& effort) {
  Answer answer{{question.op, question.name, question.usual, question.usual, {}}, 0, {}};
  const auto values = proven(question, cases, answer);
  if (!values) return failure(values.error().code(), std::string(values.error().message()));
  const auto stay = [&](int value) { return question.choose(value); };
  if (values->size() < 2 || values->front() != question.usual) {
    if (Status status = stay(question.usual); !status.ok()) return failure(std::move(status));
    return answer;
  }
  auto first = measured(question, cases, *values, effort, effort.seconds * 2 / 3);
  if (!first) return failure(std::move(first.error()));
  std::size_t best = 1;
  for (std::size_t v = 2; v < values->size(); ++v)
    if ((*first)[v].mean() < (*first)[best].mean()) best = v;
  // The fastest of many is partly the luckiest: it has to win once more, beside the usual one alone.
  auto second = measured(question, cases, {question.usual, (*values)[best]}, effort, effort.seconds / 3);
  if (!second) return failure(std::move(second.error()));
  answer.best = (*values)[best];
  const Beside& last = (*second)[1];
  const bool wins =
      std::max((*first)[best].mean(), last.mean()) < 1 - effort.margin && last.worst() < 1 + effort.margin;
  if (wins) answer.tuned.value = answer.best;
  for (std::size_t i = 0; i < cases.size(); ++i)
    answer.tuned.cases.push_back({cases[i]->what(), last.usual_seconds[i] * last.ratio[i], last.usual_seconds[i]});
  if (Status status = stay(answer.tuned.value); !status.ok()) return failure(std::move(status));
  return answer;
}

}  // namespace inlay::tools
