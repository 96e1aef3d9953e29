#include "tile_machine/emit/workers.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>

namespace inlay::npu::emit {

namespace {

std::string times(std::int64_t step, const std::string& of) {
  return (step < 0 ? " - " : " + ") + std::to_string(step < 0 ? -step : step) + " * " + of;
}

// numbers[i] - numbers[0] = across * (difference of w / of) + within * (difference of w % of); of == 1: of w itself.
struct Affine {
  std::int64_t across = 0, within = 0;
};
std::optional<Affine> affine(const Numbers& workers, const Numbers& numbers, std::int64_t of) {
  const auto whole = [&](std::size_t i) { return workers[i] / of - workers[0] / of; };
  const auto rest = [&](std::size_t i) { return workers[i] % of - workers[0] % of; };
  Affine result;
  const auto step = [&](std::size_t i, std::int64_t apart, std::int64_t& to) {
    const std::int64_t difference = numbers[i] - numbers[0];
    to = difference % apart == 0 ? difference / apart : 0;
  };
  for (std::size_t i = workers.size(); i-- > 1;) {
    if (whole(i) != 0 && rest(i) == 0) step(i, whole(i), result.across);
    if (whole(i) == 0 && rest(i) != 0) step(i, rest(i), result.within);
  }
  for (std::size_t i = 1; i < workers.size(); ++i)
    if (numbers[i] - numbers[0] != result.across * whole(i) + result.within * rest(i)) return std::nullopt;
  return result;
}

}  // namespace

// The parts of `units` that workers before this one have: units * worker / workers, rounded down. `numbers` -
// numbers[0] = step * (parts of worker - parts of the first); 0: it is not.
std::int64_t Formulas::step_of_parts(const Numbers& workers, const Numbers& numbers, std::int64_t units) const {
  const auto part = [&](std::int64_t worker) { return units * worker / workers_; };
  const std::int64_t all = part(workers.back()) - part(workers[0]);
  if (all == 0 || (numbers.back() - numbers[0]) % all != 0) return 0;
  const std::int64_t step = (numbers.back() - numbers[0]) / all;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] - numbers[0] != step * (part(workers[i]) - part(workers[0]))) return 0;
  return step;
}

bool Formulas::in_parts(const Numbers& workers, const Numbers& numbers, OfWorker& found) {
  std::int64_t unit = 0;
  for (const std::int64_t n : numbers) unit = std::gcd(unit, n - numbers[0]);
  const std::int64_t about = (numbers.back() - numbers[0]) / unit * workers_ / (workers.back() - workers[0]);
  Numbers candidates = units_;
  for (std::int64_t near = 0; near <= 2 * workers_; ++near) {
    candidates.push_back(about + near);
    if (near <= about) candidates.push_back(about - near);
  }
  for (const std::int64_t units : candidates) {
    const std::int64_t step = units > 0 ? step_of_parts(workers, numbers, units) : 0;
    if (step == 0) continue;
    if (std::find(units_.begin(), units_.end(), units) == units_.end()) units_.push_back(units);
    found = {numbers[0] - step * (units * workers[0] / workers_), times(step, "part_" + std::to_string(units))};
    return true;
  }
  return false;
}

Formulas::OfWorker Formulas::listed(const Numbers& workers, const Numbers& numbers) {
  Numbers list(static_cast<std::size_t>(workers_), 0);
  const std::int64_t least = *std::min_element(numbers.begin(), numbers.end());
  for (std::size_t i = 0; i < workers.size(); ++i) list[static_cast<std::size_t>(workers[i])] = numbers[i] - least;
  auto known = std::find(lists_.begin(), lists_.end(), list);
  if (known == lists_.end()) known = lists_.insert(lists_.end(), list);
  return {least, " + units_" + std::to_string(known - lists_.begin()) + "[worker]"};
}

Formulas::OfWorker Formulas::of_worker(const Numbers& workers, const Numbers& numbers) {
  if (std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t n) { return n == numbers[0]; }))
    return {numbers[0], ""};
  if (const auto found = affine(workers, numbers, 1))
    return {numbers[0] - found->across * workers[0], times(found->across, "worker")};
  if (const auto found = affine(workers, numbers, 2)) {
    OfWorker result{numbers[0] - found->across * (workers[0] / 2) - found->within * (workers[0] % 2), ""};
    if (found->across != 0) result.rest += times(found->across, "(worker / 2)");
    if (found->within != 0) result.rest += times(found->within, "(worker % 2)");
    return result;
  }
  OfWorker result;
  return in_parts(workers, numbers, result) ? result : listed(workers, numbers);
}

std::vector<Statement> Formulas::joined(Alike& alike) {
  std::vector<Statement> result = std::move(alike.programs[0]);
  for (std::size_t s = 0; s < result.size(); ++s)
    for (std::size_t v = 0; v < result[s].values.size(); ++v) {
      Numbers numbers{result[s].values[v].base};
      for (std::size_t i = 1; i < alike.programs.size(); ++i) numbers.push_back(alike.programs[i][s].values[v].base);
      const OfWorker found = of_worker(alike.workers, numbers);
      const std::string mark = "$" + std::to_string(v);
      result[s].values[v].base = found.base;
      result[s].text.insert(result[s].text.find(mark) + mark.size(), found.rest);
    }
  return result;
}

std::string Formulas::declarations() const {
  std::string text;
  for (const std::int64_t units : units_)
    text += "const uint32_t part_" + std::to_string(units) + " = " + std::to_string(units) + " * worker / " +
            std::to_string(workers_) + ";\n";
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    text += "const uint32_t units_" + std::to_string(i) + "[] = {";
    for (std::size_t w = 0; w < lists_[i].size(); ++w) text += (w == 0 ? "" : ", ") + std::to_string(lists_[i][w]);
    text += "};\n";
  }
  return text;
}

std::string condition(const Numbers& workers, std::int64_t all) {
  const std::int64_t first = workers[0], last = workers.back();
  if (last - first + 1 == static_cast<std::int64_t>(workers.size())) {
    if (first == last) return "worker == " + std::to_string(first);
    if (first == 0) return "worker < " + std::to_string(last + 1);
    if (last + 1 == all) return "worker >= " + std::to_string(first);
    return "worker >= " + std::to_string(first) + " && worker <= " + std::to_string(last);
  }
  std::uint64_t mask = 0;
  for (const std::int64_t worker : workers) mask |= std::uint64_t{1} << worker;
  char text[64];
  std::snprintf(text, sizeof text, "(0x%llxull >> worker & 1) != 0", static_cast<unsigned long long>(mask));
  return text;
}

}  // namespace inlay::npu::emit
