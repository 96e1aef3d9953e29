#include "tile_machine/run/scheduler.hpp"

#include <algorithm>
#include <utility>

#include "tile_machine/events/lanes.hpp"

namespace inlay::npu {

Scheduler::Scheduler(const Device& device, std::uint32_t cores, std::vector<std::uint8_t> kinds, Policy policy,
                     std::uint64_t seed, Memories& memories, Reports& reports, Streams& streams)
    : device_(device),
      kinds_(std::move(kinds)),
      policy_(policy),
      random_(seed),
      memories_(memories),
      reports_(reports),
      streams_(streams),
      states_(cores * kinds_.size()) {
  for (StreamState& stream : states_) stream.queues.resize(device.queues.size());
  streams_.step = [this](std::uint32_t stream) { return step(stream); };
  streams_.pending = [this](std::uint32_t stream) { return !empty(stream); };
}

bool Scheduler::empty(std::uint32_t stream) const { return states_[stream].standing == 0; }

bool Scheduler::enabled(const Entry& entry) { return !waits(entry.event) || standing_.of(channel(entry)) > 0; }

void Scheduler::count_flags(const Entry& entry) {
  if (sets(entry.event)) ++standing_.of(channel(entry));
  if (waits(entry.event)) --standing_.of(channel(entry));
}

bool Scheduler::step(std::uint32_t stream) {
  std::deque<Instruction>* chosen = nullptr;
  std::size_t candidates = 0;
  const auto rank = [&](const Instruction& instruction) {
    const bool dma = instruction.entry.work.unit == Unit::dma;
    return policy_ == Policy::late_dma ? dma : policy_ == Policy::early_dma && !dma;
  };
  const auto before = [&](const Instruction& a, const Instruction& b) {
    return std::pair(rank(a), a.order) < std::pair(rank(b), b.order);
  };
  for (auto& queue : states_[stream].queues) {
    if (queue.empty() || !enabled(queue.front().entry)) continue;
    ++candidates;
    const bool better = policy_ == Policy::random ? random_() % candidates == 0
                                                  : chosen == nullptr || before(queue.front(), chosen->front());
    if (better) chosen = &queue;
  }
  if (chosen == nullptr) return false;
  const Instruction instruction = std::move(chosen->front());
  chosen->pop_front();
  --states_[stream].standing;
  execute(instruction);
  return true;
}

void Scheduler::execute(const Instruction& instruction) {
  const Entry& entry = instruction.entry;
  count_flags(entry);
  if (entry.event != Event::work) return;
  for (const Footprint& footprint : instruction.footprints) {
    if (footprint.write) continue;
    const auto byte = memories_.unwritten(footprint);
    if (byte) report_unwritten(entry, footprint, *byte, instruction.index);
  }
  instruction.run();
  for (const Footprint& footprint : instruction.footprints)
    if (footprint.write) memories_.written(footprint);
}

void Scheduler::report_unwritten(const Entry& entry, const Footprint& footprint, std::uint64_t byte,
                                 std::uint32_t index) {
  const Buffer& buffer = memories_.buffer(footprint.buffer);
  Report report;
  report.kind = ReportKind::uninitialised_read;
  report.message = std::string(entry.verb) + " at " + line_of(entry.site) + " reads byte " +
                   std::to_string(byte - buffer.begin) + " of " + buffer.name + " (allocated at " +
                   line_of(buffer.site) + "), which nothing has written";
  report.first = {buffer.site, buffer.core, Pipe::scalar, no_entry, buffer.stream};
  report.second = {entry.site, entry.core, entry.pipe, index, entry.stream};
  reports_.add(std::move(report));
}

void Scheduler::report_unwritten_outputs() {
  for (std::uint32_t id = 0; id < memories_.buffers().size(); ++id) {
    const auto byte = memories_.unwritten_output(id);
    if (!byte) continue;
    const Buffer& buffer = memories_.buffer(id);
    Report report;
    report.kind = ReportKind::uninitialised_read;
    report.message =
        "the program ends and nothing has written byte " + std::to_string(*byte) + " of the output " + buffer.name;
    report.first = report.second = {buffer.site, buffer.core, Pipe::scalar, no_entry, buffer.stream};
    reports_.add(std::move(report));
  }
}

void Scheduler::put(Instruction instruction) {
  if (streams_.cancelled()) return;
  const Entry entry = instruction.entry;
  auto& queue = states_[number(entry)].queues[queue_of(entry.pipe)];
  const std::size_t depth = std::max<std::uint32_t>(1, device_.queues[queue_of(entry.pipe)].depth);
  if (queue.size() >= depth) stop(entry, [&] { return queue.size() < depth; });
  if (streams_.cancelled()) return;
  instruction.order = order_++;
  queue.push_back(std::move(instruction));
  ++states_[number(entry)].standing;
  if (policy_ == Policy::issue_order)
    while (step(number(entry))) continue;
  if (policy_ == Policy::early_dma) step(number(entry));
  if (policy_ == Policy::random)
    while (random_() % 2 == 0 && step(number(entry))) continue;
}

void Scheduler::pass(const Entry& entry, std::uint32_t index) {
  if (streams_.cancelled()) return;
  if (policy_ == Policy::issue_order && empty(number(entry)) && enabled(entry)) return count_flags(entry);
  put({entry, {}, [] {}, index, 0});
}

void Scheduler::scalar(Instruction& instruction) {
  if (!streams_.cancelled()) execute(instruction);
}

void Scheduler::stop(const Entry& entry, const std::function<bool()>& ready) {
  StreamState& stream = states_[number(entry)];
  stream.stopped = entry;
  streams_.block(number(entry), ready);
  stream.stopped.reset();
}

void Scheduler::stream_set(const Entry& entry) { count_flags(entry); }

void Scheduler::stream_wait(const Entry& entry) {
  if (!enabled(entry)) stop(entry, [&] { return enabled(entry); });
  if (!streams_.cancelled()) count_flags(entry);
}

void Scheduler::drain(const Entry& entry) {
  stop(entry, [&] { return empty(number(entry)); });
}

void Scheduler::meet(const Entry& entry) {
  drain(entry);
  const std::uint64_t meeting = ++states_[number(entry)].meetings;
  stop(entry, [&] {
    if (met_ >= meeting) return true;
    if (!std::all_of(states_.begin(), states_.end(),
                     [&](const StreamState& other) { return other.meetings >= meeting; }))
      return false;
    met_ = meeting;
    return true;
  });
}

std::string Scheduler::waits_for(const Entry& entry) const {
  const std::string where = std::string(" at ") + line_of(entry.site);
  switch (entry.event) {
    case Event::wait:
    case Event::stream_wait:
    case Event::cross_wait: return "waits for " + channel_name(entry) + where;
    case Event::barrier_all: return "waits for its queues to drain" + where;
    case Event::sync_all: return "waits for the other cores" + where;
    default: break;
  }
  return std::string("waits for a place in the full queue of ").append(name(entry.pipe)) + where;
}

void Scheduler::report_deadlock() {
  Report report;
  report.kind = ReportKind::deadlock;
  const auto add = [&](const Entry& entry, std::string_view pipe, std::uint32_t index) {
    const Place place{entry.site, entry.core, entry.pipe, index, entry.stream};
    const std::string mine = stream_name(device_, kinds_, entry.stream);
    if (report.message.empty()) report.first = place;
    report.second = place;
    report.message += report.message.empty() ? "" : "; ";
    report.message += "core " + std::to_string(entry.core) + (mine.empty() ? ": " : " " + mine + ": ");
    report.message.append(pipe).append(" ") += waits_for(entry);
    if (report.missing.empty() && waits(entry.event)) report.missing = "set for " + channel_name(entry);
  };
  for (const StreamState& stream : states_) {
    for (const auto& queue : stream.queues)
      if (!queue.empty()) add(queue.front().entry, name(queue.front().entry.pipe), queue.front().index);
    if (stream.stopped) add(*stream.stopped, "the scalar stream", no_entry);
  }
  reports_.add(std::move(report));
}

void Scheduler::give_up(bool report) {
  if (report) report_deadlock();
  for (StreamState& stream : states_) {
    for (auto& queue : stream.queues) queue.clear();
    stream.standing = 0;
  }
}

}  // namespace inlay::npu
