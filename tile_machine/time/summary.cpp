// The text of a run: roofline, each pipe's time, the critical path.
#include <algorithm>
#include <cstdio>
#include <map>

#include "tile_machine/events/sites.hpp"
#include "tile_machine/time/critical_path.hpp"
#include "tile_machine/time/roofline.hpp"

namespace inlay::npu {

namespace {

std::string number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string percent(double part, double whole) { return number(whole > 0 ? 100 * part / whole : 0, 1) + "%"; }

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

constexpr std::size_t name_width = 26;

std::string bounds_text(const Roofline& roof) {
  std::string text;
  for (std::size_t i = 0; i < roof.bounds.size(); ++i) {
    const Bound& bound = roof.bounds[i];
    if (bound.cycles == 0) continue;
    text += "  " + padded(bound.resource, name_width) + percent(bound.cycles, roof.makespan) + " of the makespan, " +
            number(bound.cycles, 0) + " cycles for ";
    text += bound.dma ? std::to_string(bound.bytes) + " bytes" : std::to_string(bound.operations) + " operations";
    text += i == roof.bounding ? "  <- bound\n" : "\n";
  }
  return text;
}

// The lanes of one queue: of each stream that has it.
std::vector<LaneTime> lanes_of(const EventLog& log, const Device& device, const Timeline& timeline,
                               std::uint32_t queue) {
  std::vector<LaneTime> result;
  for (const LaneTime& lane : timeline.lanes)
    if (lane.queue == queue && device.has_queue(log.streams[lane.stream], queue)) result.push_back(lane);
  return result;
}

// Their stalls, the largest first.
std::vector<Stall> merged(const std::vector<LaneTime>& lanes) {
  std::map<std::string, Stall> sums;
  for (const LaneTime& lane : lanes) {
    for (const Stall& stall : lane.stalls) {
      Stall& sum = sums.try_emplace(describe(stall),
                                    Stall{.cause = stall.cause, .from = stall.from, .to = stall.to, .flag = stall.flag})
                       .first->second;
      sum.ticks += stall.ticks;
      sum.count += stall.count;
      if (stall.longest > sum.longest) {
        sum.longest = stall.longest;
        sum.entry = stall.entry;
      }
    }
  }
  std::vector<Stall> result;
  for (const auto& [key, stall] : sums) result.push_back(stall);
  std::stable_sort(result.begin(), result.end(), [](const Stall& a, const Stall& b) { return a.ticks > b.ticks; });
  return result;
}

std::string pipes_text(const EventLog& log, const Device& device, const Timeline& timeline) {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::uint32_t queue = 0; queue < device.queues.size(); ++queue) {
    Tick busy = 0;
    std::uint64_t entries = 0;
    const std::vector<LaneTime> lanes = lanes_of(log, device, timeline, queue);
    for (const LaneTime& lane : lanes) {
      busy += lane.busy;
      entries += lane.entries;
    }
    if (entries == 0) continue;
    const double all = to_cycles(timeline.makespan) * static_cast<double>(lanes.size());
    text += "  " + padded(device.queues[queue].name, name_width) + "busy " + percent(to_cycles(busy), all);
    const std::vector<Stall> stalls = merged(lanes);
    for (std::size_t i = 0; i < std::min(shown, stalls.size()); ++i) {
      text += ", " + describe(stalls[i]) + " " + percent(to_cycles(stalls[i].ticks), all);
      if (stalls[i].entry != no_entry) text += " (" + line_of(log.entries[stalls[i].entry].site) + ")";
    }
    text += "\n";
  }
  return text;
}

std::string path_text(const EventLog& log, const Device& device, const Timeline& timeline) {
  constexpr std::size_t shown = 6;
  std::map<std::string, Tick> parts;
  for (const Link& link : critical_path(log, device, timeline)) {
    if (link.begin == link.end) continue;
    const Entry& entry = log.entries[link.entry];
    std::string key(link.reason == Reason::work ? name(entry.pipe) : name(link.reason));
    if (link.reason == Reason::work) key += std::string(" ") + entry.verb + " (" + line_of(entry.site) + ")";
    parts[key] += link.end - link.begin;
  }
  std::vector<std::pair<std::string, Tick>> sorted(parts.begin(), parts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, sorted.size()); ++i)
    text += (i ? ", " : "  ") + sorted[i].first + " " +
            percent(static_cast<double>(sorted[i].second), static_cast<double>(timeline.makespan));
  return text + "\n";
}

// Of the entries that work: how many the makespan hangs on, and how late the middle one could be.
std::string slack_text(const EventLog& log, const Device& device, const Timeline& timeline) {
  const std::vector<Tick> slack = slacks(log, device, timeline);
  std::vector<std::vector<Tick>> by_queue(device.queues.size());
  for (std::uint32_t i = 0; i < slack.size(); ++i)
    if (log.entries[i].event == Event::work)
      by_queue[timeline.order.lane_of(log.entries[i]) % timeline.order.queues()].push_back(slack[i]);
  std::string text;
  for (std::size_t queue = 0; queue < by_queue.size(); ++queue) {
    std::vector<Tick>& ticks = by_queue[queue];
    if (ticks.empty()) continue;
    const auto critical = std::count(ticks.begin(), ticks.end(), 0);
    const auto middle = ticks.begin() + static_cast<std::ptrdiff_t>(ticks.size() / 2);
    std::nth_element(ticks.begin(), middle, ticks.end());
    text += "  " + padded(device.queues[queue].name, name_width) + std::to_string(critical) + " of " +
            std::to_string(ticks.size()) + " critical, median " + number(to_cycles(*middle), 0) + " cycles\n";
  }
  return text;
}

}  // namespace

std::string summary(const EventLog& log, const Device& device, const Timeline& timeline, const RooflineWork& problem) {
  const Roofline roof = roofline(log, device, timeline, problem);
  const std::string stated = roof.problem > 0 ? "problem " + percent(roof.problem, roof.makespan) +
                                                    " of the makespan: no program takes less than " +
                                                    number(roof.problem, 0) + " cycles\n"
                                              : "";
  return stated + "makespan " + number(roof.makespan, 0) + " cycles, " + std::to_string(timeline.order.cores()) +
         " cores, " + std::to_string(log.entries.size()) + " entries\nbounds\n" + bounds_text(roof) +
         "pipes, all cores\n" + pipes_text(log, device, timeline) + "critical path\n" +
         path_text(log, device, timeline) + "slack of work\n" + slack_text(log, device, timeline);
}

}  // namespace inlay::npu
