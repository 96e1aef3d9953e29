// Flags: of programs, of rings, between streams and cores.
#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

void MachineCore::put_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb, Site site,
                           bool unit) {
  Entry sync = entry(event, event == Event::set ? from : to, verb, site);
  sync.from = from;
  sync.to = to;
  sync.flag = flag;
  sync.ring = ring;
  sync.unit = unit;
  dispatch(sync);
}

// To or from each of the streams at the other end.
void MachineCore::stream_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb,
                              Site site) {
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
    dispatch(sync);
  }
}

void MachineCore::ring_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site,
                            bool unit) {
  if (stopped() || !is_mine(event, from, to)) return;
  const bool streams = across(from, to);
  if (!checked_ && !streams) return;
  const bool release = std::string_view(verb) == "ring.release";
  if (mutated(release ? MutationKind::drop_release : MutationKind::drop_sync, verb, site)) return;
  if (streams) return stream_sync(event, from, to, flag, true, verb, site);
  put_sync(event, from, to, flag, true, verb, site, unit);
}

void MachineCore::flag_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site) {
  from = role(from);
  to = role(to);
  if (stopped() || !is_mine(event, from, to)) return;
  const bool streams = across(from, to);
  if (!checked_ && !streams) return;
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
  put_sync(event, from, to, flag, false, verb, site, false);
}

void MachineCore::set(Pipe from, Pipe to, std::uint16_t flag, Site site) {
  flag_sync(Event::set, from, to, flag, "set", site);
}

void MachineCore::wait(Pipe from, Pipe to, std::uint16_t flag, Site site) {
  flag_sync(Event::wait, from, to, flag, "wait", site);
}

void MachineCore::cross_set(Pipe pipe, std::uint32_t core, std::uint16_t flag, Site site) {
  if (stopped() || !runs(role(pipe))) return;
  if (core >= run_.cores)
    return illegal("cross_set", "there is no core " + std::to_string(core) + " of " + std::to_string(run_.cores), site);
  if (mutated(MutationKind::drop_sync, "cross_set", site)) return;
  Entry sync = entry(Event::cross_set, role(pipe), "cross_set", site);
  sync.peer = static_cast<std::uint16_t>(core);
  sync.flag = flag;
  dispatch(sync);
}

void MachineCore::cross_wait(Pipe pipe, std::uint16_t flag, Site site) {
  if (stopped() || !runs(role(pipe))) return;
  if (mutated(MutationKind::drop_sync, "cross_wait", site)) return;
  Entry sync = entry(Event::cross_wait, role(pipe), "cross_wait", site);
  sync.peer = static_cast<std::uint16_t>(index_);
  sync.flag = flag;
  dispatch(sync);
}

}  // namespace inlay::npu
