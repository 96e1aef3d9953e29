#include "tile_machine/estimate/rank.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <utility>

#include "tile_machine/estimate/varied_figures.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

namespace {

using Json = nlohmann::json;

class Ranker {
 public:
  Ranker(Json description, const EventLog& a, const EventLog& b) : description_(std::move(description)), a_(a), b_(b) {}

  struct Times {
    double a = 0, b = 0;
  };
  tl::expected<Times, Status> times(const Json& json) const {
    auto device = parse_device(json.dump());
    if (!device) return tl::unexpected<Status>(std::move(device.error()));
    auto first = time_events(a_, *device), second = time_events(b_, *device);
    if (!first) return tl::unexpected<Status>(std::move(first.error()));
    if (!second) return tl::unexpected<Status>(std::move(second.error()));
    return Times{to_cycles(first->makespan), to_cycles(second->makespan)};
  }

  const Json& description() const { return description_; }

 private:
  Json description_;
  const EventLog &a_, &b_;
};

// Of its range from 0 to 1. Even in the logarithm: half and twice are as likely.
double place(const Provenance& figure, double part) {
  if (figure.low <= 0) return figure.low + part * (figure.high - figure.low);
  return figure.low * std::pow(figure.high / figure.low, part);
}

using BySource = std::map<std::string, std::vector<const Provenance*>>;

}  // namespace

tl::expected<Ranking, Status> rank(std::string_view description, const EventLog& a, const EventLog& b,
                                   const RankOptions& options) {
  auto device = parse_device(description);
  if (!device) return tl::unexpected<Status>(std::move(device.error()));
  const Ranker ranker(Json::parse(description), a, b);
  auto nominal = ranker.times(ranker.description());
  if (!nominal) return tl::unexpected<Status>(std::move(nominal.error()));
  Ranking result{.cycles_a = nominal->a, .cycles_b = nominal->b, .samples = options.samples};
  std::vector<Provenance> figures;
  std::copy_if(device->provenance.begin(), device->provenance.end(), std::back_inserter(figures), varies);
  BySource sources;
  for (const Provenance& figure : figures) sources[figure.key].push_back(&figure);
  result.figures = static_cast<std::uint32_t>(figures.size());
  result.sources = static_cast<std::uint32_t>(sources.size());

  std::mt19937_64 random(options.seed);
  std::vector<double> ratios;
  for (std::uint32_t i = 0; i < options.samples; ++i) {
    Json json = ranker.description();
    for (const auto& [key, of_source] : sources) {
      const double part = static_cast<double>(random() >> 11) * 0x1p-53;
      for (const Provenance* figure : of_source) put_figure(json, *figure, place(*figure, part));
    }
    keep_parts_within_all(json);
    auto times = ranker.times(json);
    if (!times) return tl::unexpected<Status>(std::move(times.error()));
    result.a_faster += times->a < times->b;
    result.b_faster += times->b < times->a;
    ratios.push_back(times->a > 0 ? times->b / times->a : 1);
  }
  std::sort(ratios.begin(), ratios.end());
  const auto quantile = [&](double part) {
    return ratios.empty() ? 0 : ratios[static_cast<std::size_t>(part * static_cast<double>(ratios.size() - 1))];
  };
  result.low = quantile(0.05);
  result.middle = quantile(0.5);
  result.high = quantile(0.95);

  const auto other = [&](const Ranker::Times& times) {
    return nominal->a < nominal->b ? times.a > times.b : nominal->a > nominal->b && times.a < times.b;
  };
  for (const Provenance& figure : figures)
    for (double at : {figure.low, figure.high}) {
      Json json = ranker.description();
      put_figure(json, figure, at);
      keep_parts_within_all(json);
      auto times = ranker.times(json);
      if (!times) return tl::unexpected<Status>(std::move(times.error()));
      if (other(*times)) result.flips.push_back({figure.pointer, figure.confidence, figure.value, at});
    }
  for (const auto& [key, of_source] : sources)
    for (bool high : {false, true}) {
      if (of_source.size() < 2) continue;  // its figure has been at its ends
      Json json = ranker.description();
      for (const Provenance* figure : of_source) put_figure(json, *figure, high ? figure->high : figure->low);
      keep_parts_within_all(json);
      auto times = ranker.times(json);
      if (!times) return tl::unexpected<Status>(std::move(times.error()));
      if (other(*times))
        result.joint_flips.push_back(
            {key, of_source.front()->confidence, static_cast<std::uint32_t>(of_source.size()), high});
    }
  return result;
}

std::string describe(const Ranking& ranking, std::string_view a, std::string_view b) {
  const bool first = ranking.cycles_a <= ranking.cycles_b;
  const std::string_view better = first ? a : b, worse = first ? b : a;
  const double fast = first ? ranking.cycles_a : ranking.cycles_b, slow = first ? ranking.cycles_b : ranking.cycles_a;
  const std::uint32_t wins = first ? ranking.a_faster : ranking.b_faster;
  std::array<char, 512> line{};
  std::snprintf(line.data(), line.size(),
                "%.*s takes %.0f cycles, %.*s %.0f: faster in %u of %u samples of %u figures from %u sources\n"
                "%.*s / %.*s: %.2f in the middle, %.2f to %.2f in nine of ten samples\n",
                static_cast<int>(better.size()), better.data(), fast, static_cast<int>(worse.size()), worse.data(),
                slow, wins, ranking.samples, ranking.figures, ranking.sources, static_cast<int>(b.size()), b.data(),
                static_cast<int>(a.size()), a.data(), ranking.middle, ranking.low, ranking.high);
  std::string text = line.data();
  for (const Flip& flip : ranking.flips) {
    std::snprintf(line.data(), line.size(), "%s alone flips it: %g instead of %g (%s)\n", flip.pointer.c_str(), flip.at,
                  flip.value, flip.confidence.c_str());
    text += line.data();
  }
  if (ranking.flips.empty()) text += "no single figure flips it\n";
  for (const JointFlip& flip : ranking.joint_flips) {
    std::snprintf(line.data(), line.size(),
                  "the %u figures of %s together flip it, at the %s end of their ranges (%s)\n", flip.figures,
                  flip.source.c_str(), flip.high ? "upper" : "lower", flip.confidence.c_str());
    text += line.data();
  }
  if (ranking.joint_flips.empty()) text += "the figures of no source together flip it\n";
  return text;
}

}  // namespace inlay::npu
