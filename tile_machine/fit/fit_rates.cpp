#include <algorithm>
#include <cstdio>
#include <map>

#include "tile_machine/fit/fit.hpp"

namespace inlay::npu {

namespace {

const Provenance* find(const Device& device, const std::string& pointer) {
  const auto found = std::find_if(device.provenance.begin(), device.provenance.end(),
                                  [&](const Provenance& each) { return each.pointer == pointer; });
  return found == device.provenance.end() ? nullptr : &*found;
}

}  // namespace

Fit fit_rates(const Device& device, std::span<const PipeRates> logs) {
  Fit fit;
  std::string names;
  std::vector<double> clocks;
  std::map<std::uint8_t, double> fastest;  // of each path, bytes in a nanosecond
  for (const PipeRates& log : logs) {
    names.append(names.empty() ? "" : ", ").append(log.name);
    clocks.insert(clocks.end(), log.ghz.begin(), log.ghz.end());
    for (const PipeRates::Active& active : log.active)
      fastest[active.path] = std::max(fastest[active.path], active.bytes_per_ns);
  }
  if (clocks.empty()) return fit;
  std::sort(clocks.begin(), clocks.end());
  const double ghz = clocks[clocks.size() / 2];
  fit.figures.push_back({"/ghz", device.ghz, ghz, clocks.front() / ghz, clocks.back() / ghz,
                         "log:" + names + ": cycles by time of " + std::to_string(clocks.size()) + " cores"});
  for (const auto& [path, rate] : fastest) {
    const std::string pointer = "/paths/" + std::to_string(path) + "/bytes_per_cycle";
    const double cycle = rate / ghz;
    const Provenance* before = find(device, pointer);
    if (before == nullptr) continue;
    if (cycle > before->value) {
      // While a pipe is busy it waits for first bytes, too: its peak is no lower, and may be what it may have been.
      fit.figures.push_back({pointer, before->value, cycle, 1, std::max(before->high / cycle, 1.0),
                             "log:" + names + ": the most that it moved while it was busy, so at least"});
      continue;
    }
    std::array<char, 128> why{};
    std::snprintf(why.data(), why.size(), "it moved up to %.4g bytes a cycle while it was busy: at least as many",
                  cycle);
    fit.open.push_back({pointer, why.data()});
  }
  return fit;
}

}  // namespace inlay::npu
