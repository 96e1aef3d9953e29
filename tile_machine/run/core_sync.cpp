// Flags, barriers, and the meeting of cores.
#include <algorithm>

#include "tile_machine/run/core.hpp"

namespace inlay::npu {

void Core::sync_entry(Event event, Pipe pipe, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb,
                      Site site, bool unit) {
  Entry sync = entry(event, pipe, verb, site);
  sync.from = from;
  sync.to = to;
  sync.flag = flag;
  sync.ring = ring;
  sync.unit = unit;
  if (pipe != Pipe::scalar) return enqueue(sync, {}, {});
  record(sync, {});
  if (event == Event::set) run_.scheduler->stream_set(sync);
  if (event == Event::wait) run_.scheduler->stream_wait(sync);
}

void Core::await_set(const Entry& wait) {
  std::uint64_t& standing = run_.standing[channel_of(wait, run_.kinds.size())];
  run_.streams.block(number(), [&] { return standing > 0; });
  if (standing > 0) --standing;
}

// To or from each of the streams at the other end.
void Core::stream_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb, Site site) {
  const bool set = event == Event::set;
  const std::uint8_t others = device().stream_of(set ? to : from);
  const Pipe pipe = set ? from : device().sync.wait_stops_stream ? Pipe::scalar : to;
  for (std::size_t other = 0; other < run_.kinds.size(); ++other) {
    if (run_.kinds[other] != others) continue;
    Entry sync = entry(set ? Event::stream_set : Event::stream_wait, pipe, verb, site);
    sync.peer_stream = static_cast<std::uint8_t>(other);
    sync.from = from;
    sync.to = to;
    sync.flag = flag;
    sync.ring = ring;
    if (!checked()) {
      if (set)
        ++run_.standing[channel_of(sync, run_.kinds.size())];
      else
        await_set(sync);
    } else if (pipe != Pipe::scalar) {
      enqueue(sync, {}, {});
    } else {
      record(sync, {});
      run_.scheduler->stream_wait(sync);
    }
  }
}

void Core::ring_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site, bool unit) {
  if (stopped() || !is_mine(event, from, to)) return;
  const bool streams = across(from, to);
  if (!checked() && !streams) return;
  const bool release = std::string_view(verb) == "ring.release";
  if (mutated(release ? MutationKind::drop_release : MutationKind::drop_sync, verb, site)) return;
  if (streams) return stream_sync(event, from, to, flag, true, verb, site);
  sync_entry(event, event == Event::set ? from : to, from, to, flag, true, verb, site, unit);
}

void Core::flag_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site) {
  from = role(from);
  to = role(to);
  if (stopped() || !is_mine(event, from, to)) return;
  const bool streams = across(from, to);
  if (!checked() && !streams) return;
  const std::uint32_t ids = streams ? device().sync.stream_flags : device().sync.flags;
  const bool taken = flag < 64 && (ring_flags(from, to) >> flag & 1) != 0;
  if (taken || flag >= ids)
    return report(ReportKind::capacity,
                  std::string(verb) + " at " + line_of(site) + ": flag " + std::to_string(flag) + " of " +
                      std::string(name(from)) + " -> " + std::string(name(to)) +
                      (taken ? " is a ring's" : " must be below " + std::to_string(ids)),
                  site);
  if (mutated(MutationKind::drop_sync, verb, site)) return;
  if (streams) return stream_sync(event, from, to, flag, false, verb, site);
  sync_entry(event, event == Event::set ? from : to, from, to, flag, false, verb, site);
}

void Core::set(Pipe from, Pipe to, std::uint16_t flag, Site site) {
  flag_sync(Event::set, from, to, flag, "set", site);
}

void Core::wait(Pipe from, Pipe to, std::uint16_t flag, Site site) {
  flag_sync(Event::wait, from, to, flag, "wait", site);
}

void Core::barrier(Pipe pipe, Site site) {
  pipe = role(pipe);
  if (!runs(pipe)) return;
  const Queue& queue = device().queues[device().queue_of[static_cast<int>(pipe)]];
  if (!checked() || stopped() || pipe == Pipe::scalar || queue.in_order_visible) return;
  if (mutated(MutationKind::drop_sync, "barrier", site)) return;
  enqueue(entry(Event::barrier, pipe, "barrier", site), {}, {});
}

void Core::barrier_all(Site site) {
  if (!checked() || stopped() || mutated(MutationKind::drop_sync, "barrier_all", site)) return;
  Entry sync = entry(Event::barrier_all, Pipe::scalar, "barrier_all", site);
  record(sync, {});
  run_.scheduler->drain(sync);
}

void Core::cross_set(Pipe pipe, std::uint32_t core, std::uint16_t flag, Site site) {
  if (stopped() || !runs(role(pipe))) return;
  if (core >= run_.cores)
    return illegal("cross_set", "there is no core " + std::to_string(core) + " of " + std::to_string(run_.cores), site);
  if (mutated(MutationKind::drop_sync, "cross_set", site)) return;
  Entry sync = entry(Event::cross_set, role(pipe), "cross_set", site);
  sync.peer = static_cast<std::uint16_t>(core);
  sync.flag = flag;
  if (!checked()) {
    ++run_.standing[channel_of(sync, run_.kinds.size())];
    return;
  }
  if (sync.pipe != Pipe::scalar) return enqueue(sync, {}, {});
  record(sync, {});
  run_.scheduler->stream_set(sync);
}

void Core::cross_wait(Pipe pipe, std::uint16_t flag, Site site) {
  if (stopped() || !runs(role(pipe))) return;
  if (mutated(MutationKind::drop_sync, "cross_wait", site)) return;
  Entry sync = entry(Event::cross_wait, role(pipe), "cross_wait", site);
  sync.peer = static_cast<std::uint16_t>(index_);
  sync.flag = flag;
  if (!checked()) return await_set(sync);
  if (sync.pipe != Pipe::scalar) return enqueue(sync, {}, {});
  record(sync, {});
  run_.scheduler->stream_wait(sync);
}

void Core::sync_all(Site site) {
  if (stopped()) return;
  if (!checked()) {
    const std::uint64_t meeting = ++run_.meetings[number()];
    run_.streams.block(number(), [&] {
      return std::all_of(run_.meetings.begin(), run_.meetings.end(), [&](std::uint64_t met) { return met >= meeting; });
    });
    return;
  }
  if (mutated(MutationKind::drop_sync, "sync_all", site)) return;
  Entry sync = entry(Event::sync_all, Pipe::scalar, "sync_all", site);
  record(sync, {});
  run_.scheduler->meet(sync);
}

}  // namespace inlay::npu
