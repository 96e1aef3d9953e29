#include "tile_machine/time/critical_path.hpp"

#include <algorithm>

namespace inlay::npu {

std::string_view name(Reason reason) {
  constexpr std::string_view table[reasons] = {"work", "pipe", "issue", "queue full", "flag", "barrier"};
  return table[static_cast<int>(reason)];
}

namespace {

// The constraints of the model (timing.hpp): step `to` comes no earlier than step `from` + delay.
class Constraints {
 public:
  Constraints(const EventLog& log, const Device& device, const Timeline& timeline)
      : log_(log), device_(device), time_(timeline), order_(timeline.order), units_(timeline.units) {
    in_stream_.resize(log.entries.size());
    in_queue_.resize(log.entries.size());
    for (std::uint32_t stream = 0; stream < order_.streams(); ++stream) number(order_.stream(stream), in_stream_);
    for (std::uint32_t lane = 0; lane < order_.lanes(); ++lane) number(order_.queue(lane), in_queue_);
    meeting_.resize(log.entries.size());
    for (std::uint32_t stream = 0; stream < order_.streams(); ++stream) number(order_.sync_alls(stream), meeting_);
  }

  Tick at(Stamp stamp) const {
    const Span& span = time_.spans[stamp.entry];
    return stamp.step == Step::issued ? span.issued : stamp.step == Step::started ? span.started : span.ended;
  }

  // visit(from, delay, reason) for each constraint of `to`. The start of time is not named.
  template <class Visit> void each(Stamp to, Visit&& visit) const {
    const std::uint32_t index = to.entry;
    const Entry& entry = log_.entries[index];
    const bool on_stream = order_.on_stream(entry);
    if (to.step == Step::ended) {
      each_of_end(index, visit);
    } else if (to.step == Step::started) {
      visit(Stamp{index, Step::issued}, 0, Reason::issue);
      if (waits(entry.event)) flag(order_.partner(index), on_stream, visit);
      if (!on_stream && in_queue_[index] > 0) each_of_queue(index, visit);
      if (entry.event == Event::barrier_all) each_queue(order_.stream_of(entry), index, visit);
      if (entry.event == Event::sync_all) {
        for (std::uint32_t stream = 0; stream < order_.streams(); ++stream) {
          const std::uint32_t other = order_.sync_alls(stream)[meeting_[index]];
          visit(Stamp{other, Step::issued}, 0, Reason::barrier);
          each_queue(stream, other, visit);
        }
      }
    } else {
      const std::uint32_t lane = order_.lane_of(entry);
      if (in_stream_[index] > 0)
        visit(passed(order_.stream(order_.stream_of(entry))[in_stream_[index] - 1]), issue_delay(entry), Reason::issue);
      const std::uint32_t depth = device_.queues[lane % order_.queues()].depth;
      if (!on_stream && in_queue_[index] >= depth)
        visit(Stamp{order_.queue(lane)[in_queue_[index] - depth], Step::started}, 0, Reason::queue_full);
    }
  }

 private:
  std::uint32_t before(std::uint32_t index, std::uint32_t places) const {  // in its queue
    return order_.queue(order_.lane_of(log_.entries[index]))[in_queue_[index] - places];
  }
  bool transfer(std::uint32_t index) const {
    return log_.entries[index].event == Event::work && log_.entries[index].work.unit == Unit::dma;
  }
  std::uint32_t outstanding(std::uint32_t index) const {
    return device_.queues[order_.lane_of(log_.entries[index]) % order_.queues()].outstanding;
  }
  Cost cost(std::uint32_t index) const { return cost_of(device_, log_.entries[index], time_.residency.before(index)); }

  template <class Visit> void each_of_end(std::uint32_t index, Visit&& visit) const {
    const Entry& entry = log_.entries[index];
    const Span& span = time_.spans[index];
    if (order_.on_stream(entry) || in_queue_[index] == 0 || outstanding(index) <= 1) {
      visit(Stamp{index, Step::started}, span.ended - span.started, Reason::work);
    } else {  // behind others that were under way
      const Tick previous = time_.spans[before(index, 1)].ended;
      const Tick head = waits(entry.event) ? to_ticks(device_.sync.wait_cycles)
                        : transfer(index)  ? cost(index).head
                                           : 0;
      const Tick rest = span.ended - std::max(span.started + head, previous);
      visit(Stamp{index, Step::started}, head + rest, Reason::work);
      visit(Stamp{before(index, 1), Step::ended}, rest, Reason::pipe);
    }
    if (entry.event != Event::work || units_.leader(index) == no_entry) return;
    visit(Stamp{units_.leader(index), Step::ended}, UnitFlags::granule(device_, entry.work, cost(index).units),
          Reason::flag);
  }

  template <class Visit> void flag(std::uint32_t set, bool on_stream, Visit&& visit) const {
    const std::uint32_t leader = on_stream ? no_entry : units_.leader(set);
    if (leader == no_entry) return visit(Stamp{set, Step::ended}, flight(log_.entries[set]), Reason::flag);
    const Cost led = cost(leader);
    const Tick granule = UnitFlags::granule(device_, log_.entries[leader].work, led.units);
    visit(Stamp{leader, Step::started}, led.head + granule, Reason::flag);
    if (in_queue_[leader] > 0 && outstanding(leader) > 1)
      visit(Stamp{before(leader, 1), Step::ended}, granule, Reason::flag);
  }

  template <class Visit> void each_of_queue(std::uint32_t index, Visit&& visit) const {
    const Event event = log_.entries[index].event;
    const std::uint32_t previous = before(index, 1);
    const bool beside = outstanding(index) > 1 && (transfer(index) || waits(event) || sets(event));
    if (!beside) return visit(Stamp{previous, Step::ended}, 0, Reason::pipe);
    visit(Stamp{previous, Step::started}, waits(log_.entries[previous].event) ? to_ticks(device_.sync.wait_cycles) : 0,
          Reason::pipe);
    std::uint32_t under_way = outstanding(index);
    for (std::uint32_t places = 1; places <= in_queue_[index]; ++places) {
      const std::uint32_t other = before(index, places);
      const Event kind = log_.entries[other].event;
      if (!transfer(other) && !waits(kind) && !sets(kind)) return visit(Stamp{other, Step::ended}, 0, Reason::pipe);
      if (!transfer(other) || --under_way > 0) continue;
      if (transfer(index)) visit(Stamp{other, Step::ended}, 0, Reason::pipe);
      return;
    }
  }

  static void number(std::span<const std::uint32_t> list, std::vector<std::uint32_t>& numbers) {
    for (std::uint32_t i = 0; i < list.size(); ++i) numbers[list[i]] = i;
  }

  // The step of a stream's entry after which the stream goes on.
  Stamp passed(std::uint32_t index) const {
    return {index, order_.on_stream(log_.entries[index]) ? Step::ended : Step::issued};
  }

  Tick issue_delay(const Entry& entry) const {
    return order_.on_stream(entry) ? 0 : to_ticks(device_.queues[order_.lane_of(entry) % order_.queues()].issue_cycles);
  }

  Tick flight(const Entry& set) const {
    return set.event == Event::stream_set ? to_ticks(device_.sync.stream_cycles) : 0;
  }

  // The last entry of each of a stream's queues that was issued before entry `index` of the stream.
  template <class Visit> void each_queue(std::uint32_t stream, std::uint32_t index, Visit&& visit) const {
    for (std::uint32_t queue = 0; queue < order_.queues(); ++queue) {
      const std::uint32_t lane = order_.lane(stream, queue);
      if (lane == order_.scalar_lane(stream)) continue;
      const auto entries = order_.queue(lane);
      const auto after = std::lower_bound(entries.begin(), entries.end(), index);
      if (after != entries.begin()) visit(Stamp{*(after - 1), Step::ended}, 0, Reason::barrier);
    }
  }

  const EventLog& log_;
  const Device& device_;
  const Timeline& time_;
  const EventOrder& order_;
  const UnitFlags& units_;
  std::vector<std::uint32_t> in_stream_, in_queue_, meeting_;
};

}  // namespace

std::vector<Link> critical_path(const EventLog& log, const Device& device, const Timeline& timeline) {
  std::vector<Link> path;
  if (timeline.steps.empty()) return path;
  const Constraints constraints(log, device, timeline);
  Stamp to = timeline.steps.back();
  for (bool found = true; found;) {
    const Tick end = constraints.at(to);
    Link link{.entry = to.entry, .step = to.step, .reason = Reason::issue, .begin = 0, .end = end};
    Stamp next{};
    found = false;
    // The last of the binding ones: a set or a predecessor in the queue tells more than the issue.
    constraints.each(to, [&](Stamp from, Tick delay, Reason reason) {
      if (constraints.at(from) + delay != end) return;
      link.reason = reason;
      link.begin = constraints.at(from);
      next = from;
      found = true;
    });
    path.push_back(link);
    to = next;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<Tick> slacks(const EventLog& log, const Device& device, const Timeline& timeline) {
  const Constraints constraints(log, device, timeline);
  constexpr int steps = 3;
  std::vector<Tick> latest(log.entries.size() * steps, timeline.makespan);
  const auto late = [&](Stamp stamp) -> Tick& {
    return latest[std::size_t{stamp.entry} * steps + static_cast<std::size_t>(stamp.step)];
  };
  for (auto to = timeline.steps.rbegin(); to != timeline.steps.rend(); ++to)
    constraints.each(*to,
                     [&](Stamp from, Tick delay, Reason) { late(from) = std::min(late(from), late(*to) - delay); });
  std::vector<Tick> result(log.entries.size());
  for (std::uint32_t i = 0; i < result.size(); ++i) {
    result[i] = late({i, Step::ended}) - timeline.spans[i].ended;
  }
  return result;
}

}  // namespace inlay::npu
