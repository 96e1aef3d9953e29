#include "tile_machine/time/stalls.hpp"

#include <string_view>

namespace inlay::npu {

std::string_view name(Cause cause) {
  constexpr std::string_view table[causes] = {"issue",      "queue full",  "flag",       "ring full",
                                              "ring empty", "flag flight", "DRAM share", "L2 share",
                                              "sync",       "barrier",     "cross",      "drain"};
  return table[static_cast<int>(cause)];
}

std::string describe(const Stall& stall) {
  std::string text(name(stall.cause));
  if (stall.cause == Cause::queue_full) return text.append(" ").append(name(stall.to));
  if (stall.cause == Cause::flag || stall.cause == Cause::ring_full || stall.cause == Cause::ring_empty ||
      stall.cause == Cause::flight)
    text.append(" ").append(name(stall.from)).append(" -> ").append(name(stall.to));
  if (stall.cause == Cause::flag) text.append(" #").append(std::to_string(stall.flag));
  return text;
}

Stall wait_cause(const Entry& entry) {
  if (entry.event == Event::cross_wait) return {.cause = Cause::cross};
  // ring.wait waits for the producer's commit; all others (acquire, the ring's end) for a release.
  const Cause ring = std::string_view(entry.verb).ends_with("wait") ? Cause::ring_empty : Cause::ring_full;
  return {.cause = entry.ring ? ring : Cause::flag, .from = entry.from, .to = entry.to, .flag = entry.flag};
}

void StallLedger::add(const Stall& of, Tick ticks, std::uint32_t entry) {
  if (ticks == 0) return;
  const std::uint64_t key = static_cast<std::uint64_t>(of.cause) << 32 | static_cast<std::uint64_t>(of.from) << 24 |
                            static_cast<std::uint64_t>(of.to) << 16 | of.flag;
  const auto [at, added] = index_.try_emplace(key, static_cast<std::uint32_t>(stalls_.size()));
  if (added) stalls_.push_back({.cause = of.cause, .from = of.from, .to = of.to, .flag = of.flag});
  Stall& stall = stalls_[at->second];
  stall.ticks += ticks;
  ++stall.count;
  if (ticks > stall.longest) {
    stall.longest = ticks;
    stall.entry = entry;
  }
}

}  // namespace inlay::npu
