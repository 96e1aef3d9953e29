#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "files/strict_json.hpp"
#include "tile_machine/fit/fit.hpp"
#include "tile_machine/fit/least_squares.hpp"
#include "tile_machine/fit/transfers.hpp"

namespace inlay::npu {

namespace {

// A figure is told where its standard error is at most this part of it, or so many cycles, or bytes of a half_burst.
constexpr double told_error = 0.025, told_cycles = 0.5, told_bytes = 1;

std::string count_of(std::size_t used, std::size_t all) {
  return std::to_string(used) + (used == all ? "" : " of " + std::to_string(all));
}

class Figures {
 public:
  Figures(const Device& device, std::string logs) : device_(device), logs_(std::move(logs)) {}

  const Provenance* known(const std::string& pointer) const {
    const auto found = std::find_if(device_.provenance.begin(), device_.provenance.end(),
                                    [&](const Provenance& each) { return each.pointer == pointer; });
    return found == device_.provenance.end() ? nullptr : &*found;
  }

  // Whether the value was precise enough to be told; if not, it stays open.
  bool tell(const std::string& pointer, double value, double error, double slack, const std::string& samples) {
    const Provenance* before = known(pointer);
    if (before == nullptr) return false;
    if (!(error <= std::max(told_error * std::abs(value), slack))) {
      leave_open(pointer, "its samples leave it open by " + std::to_string(std::lround(100 * error / value)) + " %");
      return false;
    }
    const double part = value > 0 ? 2 * error / value : 0;
    fit_.figures.push_back({pointer, before->value, value, std::max(1 - part, 0.01), std::min(1 + part, 100.0),
                            "log:" + logs_ + ": " + samples});
    return true;
  }
  // A core moved so much: its share of global memory is no smaller, and may be what it may have been.
  void tell_share_of_core(double rate, const std::string& samples) {
    const std::string pointer = "/dram/bytes_per_cycle_core";
    const Provenance* before = known(pointer);
    const double value = std::min(rate, device_.dram_bytes_per_cycle);
    if (before == nullptr || value <= 1.01 * before->value) return;
    fit_.figures.push_back({pointer, before->value, value, 1, std::max(before->high / value, 1.0),
                            "log:" + logs_ + ": at least what " + samples + " moved"});
  }
  void leave_open(const std::string& pointer, const std::string& why) {
    if (known(pointer) != nullptr) fit_.open.push_back({pointer, why});
  }
  Fit take() { return std::move(fit_); }

 private:
  const Device& device_;
  std::string logs_;
  Fit fit_;
};

void fit_vectors(Figures& figures, std::span<const InstructionLog> logs) {
  std::map<VectorOp, std::vector<Equation>> equations;
  for (const InstructionLog& log : logs)
    for (const VectorSample& sample : log.vectors)
      equations[sample.op].push_back({{1, sample.repeats}, sample.cycles, sample.cycles});
  for (const auto& [op, of_op] : equations) {
    const std::string pointer = "/vector/operations/" + std::string(name(op));
    const Solution solution = solve_scaled(of_op, 2);
    const std::string samples = count_of(solution.used, of_op.size()) + " instructions " + std::string(name(op));
    if (!solution.determined || solution.value[1] <= 0) {
      const std::string why = std::to_string(of_op.size()) + " instructions tell head and slope together only: " +
                              "they need several numbers of repeats";
      figures.leave_open(pointer + "/head", why);
      figures.leave_open(pointer + "/slope", why);
      continue;
    }
    figures.tell(pointer + "/head", std::max(solution.value[0], 0.0), solution.error[0], told_cycles, samples);
    figures.tell(pointer + "/slope", solution.value[1], solution.error[1], 0, samples);
  }
}

void fit_path(Figures& figures, const Device& device, std::size_t number, const TransferFit& fit) {
  const std::string pointer = "/paths/" + std::to_string(number);
  const Path& path = device.paths[number];
  const bool change = fit.change == Change::nd2nz;
  const std::string rate = pointer + (change ? "/nd2nz/bytes_per_cycle" : "/bytes_per_cycle"),
                    burst = pointer + (change ? "/nd2nz/run_cycles" : "/half_burst"),
                    what = std::string(name(path.from)) + " to " + std::string(name(path.to)) +
                           (change ? " with a change of layout" : "");
  if (!fit.rate_determined) {
    const std::string why = std::to_string(fit.samples) + " transfers from " + what + ", " + std::to_string(fit.alone) +
                            " of them alone on global memory: they need several sizes";
    figures.leave_open(rate, why);
    figures.leave_open(pointer + "/latency", why);
    return;
  }
  const std::string samples = count_of(fit.used, fit.samples) + " transfers from " + what;
  const double a = fit.per_byte;
  figures.tell(rate, 1 / a, fit.per_byte_error / a / a, 0, samples);
  if (fit.latency_determined && !change)
    figures.tell(pointer + "/latency", fit.latency, fit.latency_error, told_cycles, samples);
  else if (!change)
    figures.leave_open(pointer + "/latency", "no transfer from " + what + " began after the one before it had ended");
  if (!fit.run_determined)
    figures.leave_open(burst, "runs of transfers from " + what + " are all of one length");
  else if (change)  // half_burst is the plain copy's, and costs a run of this one as much again
    figures.tell(burst, std::max(fit.per_run - path.half_burst * a, 0.0), fit.per_run_error, told_cycles, samples);
  else
    figures.tell(burst, fit.per_run / a, fit.quotient_error, told_bytes, samples);
}

}  // namespace

Fit fit_instructions(const Device& device, std::span<const InstructionLog> logs) {
  std::string names;
  for (const InstructionLog& log : logs) names.append(names.empty() ? "" : ", ").append(log.name);
  if (names.size() > 200) names = names.substr(0, 200) + "..";
  Figures figures(device, names);
  fit_vectors(figures, logs);
  // Plain copies first: a change of layout stands on their latency and half_burst.
  std::vector<Path> paths = device.paths;
  double fastest = 0;
  std::size_t fastest_path = 0;
  for (const Change change : {Change::none, Change::nd2nz})
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const TransferFit fit = fit_transfers(device, paths, i, change, logs);
      if (fit.samples == 0) continue;
      fit_path(figures, device, i, fit);
      if (paths[i].dram && fit.rate_determined && 1 / fit.per_byte > fastest) {
        fastest = 1 / fit.per_byte;
        fastest_path = i;
      }
      if (change == Change::none && fit.latency_determined) paths[i].latency = fit.latency;
      if (change == Change::none && fit.run_determined) paths[i].half_burst = fit.per_run / fit.per_byte;
    }
  if (fastest > 0)
    figures.tell_share_of_core(fastest, "transfers from " + std::string(name(paths[fastest_path].from)) + " to " +
                                            std::string(name(paths[fastest_path].to)));
  return figures.take();
}

void merge(Fit& before, Fit more) {
  for (FittedFigure& figure : more.figures) {
    const auto same = [&](const auto& each) { return each.pointer == figure.pointer; };
    std::erase_if(before.open, same);
    const auto found = std::find_if(before.figures.begin(), before.figures.end(), same);
    if (found == before.figures.end()) {
      before.figures.push_back(std::move(figure));
    } else {
      figure.before = found->before;
      *found = std::move(figure);
    }
  }
  for (OpenFigure& open : more.open) {
    const auto same = [&](const auto& each) { return each.pointer == open.pointer; };
    if (std::none_of(before.figures.begin(), before.figures.end(), same) &&
        std::none_of(before.open.begin(), before.open.end(), same))
      before.open.push_back(std::move(open));
  }
}

}  // namespace inlay::npu
