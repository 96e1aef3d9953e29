#include "npu_kernels/machine/time/critical_path.hpp"

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
  Constraints(const Tape& tape, const Device& device, const Timeline& timeline)
      : tape_(tape), device_(device), time_(timeline), order_(timeline.order) {
    in_stream_.resize(tape.entries.size());
    in_queue_.resize(tape.entries.size());
    for (std::uint32_t stream = 0; stream < order_.streams(); ++stream) number(order_.stream(stream), in_stream_);
    for (std::uint32_t lane = 0; lane < order_.lanes(); ++lane) number(order_.queue(lane), in_queue_);
    meeting_.resize(tape.entries.size());
    for (std::uint32_t stream = 0; stream < order_.streams(); ++stream) number(order_.sync_alls(stream), meeting_);
  }

  Tick at(Stamp stamp) const {
    const Span& span = time_.spans[stamp.entry];
    return stamp.step == Step::issued ? span.issued : stamp.step == Step::started ? span.started : span.ended;
  }

  // visit(from, delay, reason) for each constraint of `to`. The start of time is not named.
  template <class Visit> void each(Stamp to, Visit&& visit) const {
    const std::uint32_t index = to.entry;
    const Entry& entry = tape_.entries[index];
    const bool on_stream = order_.on_stream(entry);
    if (to.step == Step::ended) {
      visit(Stamp{index, Step::started}, time_.spans[index].ended - time_.spans[index].started, Reason::work);
    } else if (to.step == Step::started) {
      visit(Stamp{index, Step::issued}, 0, Reason::issue);
      if (waits(entry.event)) visit(Stamp{order_.partner(index), Step::ended}, flight(entry), Reason::flag);
      if (!on_stream && in_queue_[index] > 0)
        visit(Stamp{order_.queue(order_.lane_of(entry))[in_queue_[index] - 1], Step::ended}, 0, Reason::pipe);
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
  static void number(std::span<const std::uint32_t> list, std::vector<std::uint32_t>& numbers) {
    for (std::uint32_t i = 0; i < list.size(); ++i) numbers[list[i]] = i;
  }

  // The step of a stream's entry after which the stream goes on.
  Stamp passed(std::uint32_t index) const {
    return {index, order_.on_stream(tape_.entries[index]) ? Step::ended : Step::issued};
  }

  Tick issue_delay(const Entry& entry) const {
    return order_.on_stream(entry) ? 0 : to_ticks(device_.queues[order_.lane_of(entry) % order_.queues()].issue_cycles);
  }

  Tick flight(const Entry& wait) const {
    return wait.event == Event::stream_wait ? to_ticks(device_.sync.stream_cycles) : 0;
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

  const Tape& tape_;
  const Device& device_;
  const Timeline& time_;
  const TapeOrder& order_;
  std::vector<std::uint32_t> in_stream_, in_queue_, meeting_;
};

}  // namespace

std::vector<Link> critical_path(const Tape& tape, const Device& device, const Timeline& timeline) {
  std::vector<Link> path;
  if (timeline.steps.empty()) return path;
  const Constraints constraints(tape, device, timeline);
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

std::vector<Tick> slacks(const Tape& tape, const Device& device, const Timeline& timeline) {
  const Constraints constraints(tape, device, timeline);
  constexpr int steps = 3;
  std::vector<Tick> latest(tape.entries.size() * steps, timeline.makespan);
  const auto late = [&](Stamp stamp) -> Tick& {
    return latest[std::size_t{stamp.entry} * steps + static_cast<std::size_t>(stamp.step)];
  };
  for (auto to = timeline.steps.rbegin(); to != timeline.steps.rend(); ++to)
    constraints.each(*to,
                     [&](Stamp from, Tick delay, Reason) { late(from) = std::min(late(from), late(*to) - delay); });
  std::vector<Tick> result(tape.entries.size());
  for (std::uint32_t i = 0; i < result.size(); ++i) {
    result[i] = late({i, Step::ended}) - timeline.spans[i].ended;
  }
  return result;
}

}  // namespace inlay::npu
