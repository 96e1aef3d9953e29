// Figures from times of whole programs: those at which
//
//   sum ((ln us - ln estimate) / spread)^2 + sum ((ln figure - ln middle of its range) / a quarter of its range)^2
//
// is least. The second sum says what is known beforehand: a figure that is assumed within half and twice may move far,
// a documented one not at all. What the times say beyond it is how much narrower the figure's range has become; a
// figure that stays wide is open, alone or because another one could have moved in its place.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "tile_machine/estimate/varied_figures.hpp"
#include "tile_machine/fit/fit.hpp"
#include "tile_machine/fit/least_squares.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

namespace {

using Json = nlohmann::json;

// Logarithms of times and figures, of which a hundredth is one percent.
constexpr double step = 0.02;          // of a figure, to see what the times do
constexpr double felt = 1e-3;          // a time that moves by less at that step does not depend on the figure
constexpr double told = 0.025;         // the standard error of a figure that is told
constexpr double least_spread = 2e-3;  // of times: a model is no closer to a device
constexpr double usual_spread = 0.03;  // where there are too few times to tell it
constexpr double longest_move = 0.7;   // of a figure in one iteration: twice or half
constexpr int iterations = 12, screenings = 3;

// What is known of ln (figure / description) beforehand: the middle of its range, and a quarter of that.
struct Unknown {
  Provenance figure;
  double middle = 0, sigma = 0;
};

class TimesFit {
 public:
  TimesFit(Json description, const Device& device, std::span<const TimedProgram> programs, const Parallel& parallel)
      : description_(std::move(description)), device_(device), programs_(programs), parallel_(parallel) {}

  Status prepare() {
    for (const TimedProgram& program : programs_) {
      auto ordered = order_events(program.log, device_);
      if (!ordered) return std::move(ordered.error());
      ordered_.push_back(std::move(*ordered));
    }
    for (const Provenance& figure : device_.provenance)
      if (((varies(figure) && !figure.whole && occurs(figure)) || figure.pointer == "/host/launch_us") &&
          figure.low < figure.high && figure.value > 0)
        all_.push_back(known(figure));
    return {};
  }

  // Figures at exp(x) times the description's: ln of what the programs take.
  tl::expected<std::vector<double>, Status> times(const std::vector<Unknown>& unknowns,
                                                  const std::vector<double>& x) const {
    Json json = description_;
    for (std::size_t i = 0; i < unknowns.size(); ++i)
      put_figure(json, unknowns[i].figure, unknowns[i].figure.value * std::exp(x[i]));
    keep_parts_within_all(json);
    auto device = parse_device(json.dump());
    if (!device) return failure(std::move(device.error()));
    std::vector<double> result;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      auto end = makespan_of(programs_[i].log, *device, ordered_[i]);
      if (!end) return failure(std::move(end.error()));
      result.push_back(std::log(device->host.launch_us + to_cycles(*end) / (device->ghz * 1e3)));
    }
    return result;
  }

  // How the times move with each unknown, by unknown; the larger of both ways, as a figure may count one way only.
  tl::expected<std::vector<std::vector<double>>, Status> slopes(const std::vector<Unknown>& unknowns,
                                                                const std::vector<double>& x,
                                                                const std::vector<double>& here) const {
    std::vector<std::vector<double>> result(unknowns.size());
    std::vector<Status> failed(unknowns.size());
    parallel_(static_cast<index>(unknowns.size()), [&](index number) {
      const auto i = static_cast<std::size_t>(number);
      for (const double way : {-step, step}) {
        std::vector<double> moved = x;
        moved[i] += way;
        const auto there = times(unknowns, moved);
        if (!there) return void(failed[i] = Status(there.error().code(), there.error().message()));
        result[i].resize(here.size());
        for (std::size_t t = 0; t < here.size(); ++t) {
          const double slope = ((*there)[t] - here[t]) / way;
          if (std::abs(slope) > std::abs(result[i][t])) result[i][t] = slope;
        }
      }
    });
    for (Status& status : failed)
      if (!status.ok()) return failure(std::move(status));
    return result;
  }

  tl::expected<Fit, Status> run(const std::string& name);

 private:
  static Unknown known(const Provenance& figure) {
    const double low = std::log(std::max(figure.low, 1e-9 * figure.high) / figure.value),
                 high = std::log(figure.high / figure.value);
    return {figure, (low + high) / 2, (high - low) / 4};
  }
  // False: no program has the operation or the path, so that its times need not be looked at.
  bool occurs(const Provenance& figure) const {
    const auto of = [&](const std::string& owner, const auto& is_used) {
      if (!figure.pointer.starts_with(owner)) return true;
      return std::any_of(programs_.begin(), programs_.end(), [&](const TimedProgram& program) {
        return std::any_of(program.log.entries.begin(), program.log.entries.end(),
                           [&](const Entry& entry) { return is_used(entry.work); });
      });
    };
    for (int op = 0; op < vector_ops; ++op)
      if (!of("/vector/operations/" + std::string(name(static_cast<VectorOp>(op))) + "/",
              [&](const Work& work) { return work.unit == Unit::vector && work.op == static_cast<VectorOp>(op); }))
        return false;
    for (std::size_t path = 0; path < device_.paths.size(); ++path)
      if (!of("/paths/" + std::to_string(path) + "/",
              [&](const Work& work) { return work.unit == Unit::dma && work.path == path; }))
        return false;
    return of("/matrix/", [](const Work& work) { return work.unit == Unit::matrix; });
  }
  // Of each program, over all its times.
  struct Residual {
    double sum = 0, squares = 0;
  };
  std::vector<Residual> residuals(const std::vector<double>& here) const {
    std::vector<Residual> result(here.size());
    for (std::size_t t = 0; t < here.size(); ++t)
      for (const double us : programs_[t].us) {
        const double off = std::log(us) - here[t];
        result[t].sum += off;
        result[t].squares += off * off;
      }
    return result;
  }
  std::size_t measured() const {
    std::size_t count = 0;
    for (const TimedProgram& program : programs_) count += program.us.size();
    return count;
  }
  double cost(const std::vector<double>& x, const std::vector<double>& here) const {
    double sum = 0;
    for (const Residual& r : residuals(here)) sum += r.squares / (spread_ * spread_);
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow((x[i] - unknowns_[i].middle) / unknowns_[i].sigma, 2);
    return sum;
  }
  // The inverse: what is left open of the unknowns and between them.
  std::vector<double> covariance(const std::vector<std::vector<double>>& slope) const {
    const std::size_t n = unknowns_.size();
    std::vector<double> matrix(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t t = 0; t < programs_.size(); ++t)
          matrix[i * n + j] += slope[i][t] * slope[j][t] * static_cast<double>(programs_[t].us.size());
        matrix[i * n + j] /= spread_ * spread_;
        if (i == j) matrix[i * n + j] += 1 / (unknowns_[i].sigma * unknowns_[i].sigma);
      }
    return inverse_of_definite(matrix, n);
  }
  Status screen();
  Status iterate();
  void estimate_spread(const std::vector<double>& covariance);

  Json description_;
  const Device& device_;
  std::span<const TimedProgram> programs_;
  const Parallel& parallel_;
  std::vector<Timeline> ordered_;
  std::vector<Unknown> all_, unknowns_;  // that could count, and that do
  std::vector<double> x_;                // of the unknowns
  std::vector<std::vector<double>> slope_;
  double spread_ = usual_spread;
};

// Takes those of all figures on which a time depends where the search stands.
Status TimesFit::screen() {
  std::vector<double> x(all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i)
    for (std::size_t j = 0; j < unknowns_.size(); ++j)
      if (all_[i].figure.pointer == unknowns_[j].figure.pointer) x[i] = x_[j];
  auto here = times(all_, x);
  if (!here) return std::move(here.error());
  auto slope = slopes(all_, x, *here);
  if (!slope) return std::move(slope.error());
  std::vector<Unknown> kept;
  std::vector<double> kept_x;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const auto& of_times = (*slope)[i];
    const bool counts =
        std::any_of(of_times.begin(), of_times.end(), [](double s) { return std::abs(s) * step > felt; });
    if (!counts && x[i] == 0) continue;
    kept.push_back(all_[i]);
    kept_x.push_back(x[i]);
  }
  unknowns_ = std::move(kept);
  x_ = std::move(kept_x);
  return {};
}

Status TimesFit::iterate() {
  auto here = times(unknowns_, x_);
  if (!here) return std::move(here.error());
  for (int round = 0; round < iterations; ++round) {
    auto slope = slopes(unknowns_, x_, *here);
    if (!slope) return std::move(slope.error());
    slope_ = std::move(*slope);
    const std::vector<double> inverse = covariance(slope_);
    const std::vector<Residual> residual = residuals(*here);
    const std::size_t n = unknowns_.size();
    std::vector<double> right(n), move(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t t = 0; t < residual.size(); ++t)
        right[i] += slope_[i][t] * residual[t].sum / (spread_ * spread_);
      right[i] -= (x_[i] - unknowns_[i].middle) / (unknowns_[i].sigma * unknowns_[i].sigma);
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) move[i] += inverse[i * n + j] * right[j];
    double longest = 0;
    for (const double each : move) longest = std::max(longest, std::abs(each));
    if (longest < 1e-4) break;
    // Halved until it helps.
    const double before = cost(x_, *here);
    bool better = false;
    for (double part = std::min(1.0, longest_move / longest); part > 1e-2 && !better; part /= 2) {
      std::vector<double> next = x_;
      for (std::size_t i = 0; i < n; ++i) next[i] += part * move[i];
      auto there = times(unknowns_, next);
      if (!there) return std::move(there.error());
      better = cost(next, *there) < before;
      if (!better) continue;
      x_ = std::move(next);
      here = std::move(there);
    }
    if (!better) break;
    estimate_spread(inverse);
  }
  return {};
}

// From the residuals, less the freedom that the unknowns took.
void TimesFit::estimate_spread(const std::vector<double>& covariance) {
  const auto here = times(unknowns_, x_);
  if (!here) return;
  const std::size_t n = unknowns_.size();
  double taken = static_cast<double>(n), squares = 0;
  for (std::size_t i = 0; i < n; ++i) taken -= covariance[i * n + i] / (unknowns_[i].sigma * unknowns_[i].sigma);
  for (const Residual& r : residuals(*here)) squares += r.squares;
  const double free = static_cast<double>(measured()) - taken;
  if (free >= 1) spread_ = std::clamp(std::sqrt(squares / free), least_spread, 1.0);
}

tl::expected<Fit, Status> TimesFit::run(const std::string& name) {
  for (int round = 0; round < screenings; ++round) {
    const std::size_t before = unknowns_.size();
    if (Status status = screen(); !status.ok()) return failure(std::move(status));
    if (unknowns_.empty() || (round > 0 && unknowns_.size() == before)) break;
    if (Status status = iterate(); !status.ok()) return failure(std::move(status));
  }
  Fit fit;
  if (unknowns_.empty()) return fit;
  const std::vector<double> left = covariance(slope_);
  std::array<char, 160> text{};
  for (std::size_t i = 0; i < unknowns_.size(); ++i) {
    const Unknown& unknown = unknowns_[i];
    const double error = std::sqrt(left[i * unknowns_.size() + i]);
    if (error <= told && error < unknown.sigma / 2) {
      std::snprintf(text.data(), text.size(), ": %zu times of %zu programs, which are met to within %.1f %%",
                    measured(), programs_.size(), 100 * spread_);
      fit.figures.push_back({unknown.figure.pointer, unknown.figure.value, unknown.figure.value * std::exp(x_[i]),
                             std::exp(-2 * error), std::exp(2 * error), "log:" + name + text.data()});
    } else {
      std::snprintf(text.data(), text.size(), "the times leave it open by %.0f %%", 100 * error);
      fit.open.push_back({unknown.figure.pointer, text.data()});
    }
  }
  return fit;
}

}  // namespace

tl::expected<Fit, Status> fit_times(std::string_view description, std::span<const TimedProgram> programs,
                                    const std::string& name, const Parallel& parallel) {
  auto device = parse_device(description);
  if (!device) return failure(std::move(device.error()));
  TimesFit search(Json::parse(description), *device, programs, parallel);
  if (Status status = search.prepare(); !status.ok()) return failure(std::move(status));
  return search.run(name);
}

}  // namespace inlay::npu
