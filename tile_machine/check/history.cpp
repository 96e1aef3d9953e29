#include "tile_machine/check/history.hpp"

#include <algorithm>
#include <tuple>

namespace inlay::npu {
namespace {

constexpr std::uint32_t no_slot = 0xffffffffu;
constexpr int smallest_page = 6;                    // log2 of bytes
constexpr std::int64_t pages_of_a_footprint = 256;  // at most, of a contiguous one
constexpr std::int64_t pages_of_a_region = 1 << 20;

}  // namespace

History::History(const EventLog& log, const Device& device, std::size_t limit)
    : log_(log),
      lanes_(log, device),
      memories_(device.memories.size()),
      limit_(limit),
      regions_(1 + lanes_.streams() * (device.memories.size() - 1)) {
  const auto each = [&](auto&& visit) {
    for (const Entry& entry : log.entries) {
      if (entry.event != Event::work) continue;
      for (std::uint32_t f = entry.footprints; f < entry.footprints + entry.footprint_count; ++f) {
        const Runs runs = runs_of(log.footprints[f]);
        if (runs.count > 0) visit(log.footprints[f], region(log.footprints[f], lanes_.stream_of(entry)), runs);
      }
    }
  };
  each([](const Footprint&, Region& region, const Runs& runs) {
    region.begin = std::min(region.begin, runs.begin);
    region.end = std::max(region.end, runs.end());
    region.extents += runs.end() - runs.begin;
    region.longest = std::max(region.longest, runs.end() - runs.begin);
    ++region.count;
  });
  for (Region& region : regions_) {
    if (region.count == 0) continue;
    // About two pages for the usual footprint: few insertions, few strangers in a page.
    const std::int64_t bytes = std::max({region.extents / region.count / 2, region.longest / pages_of_a_footprint,
                                         (region.end - region.begin) / pages_of_a_region});
    region.shift = smallest_page;
    while ((std::int64_t{1} << region.shift) < bytes) ++region.shift;
    region.slots.assign(static_cast<std::size_t>(((region.end - region.begin) >> region.shift) + 1), no_slot);
  }
  std::uint32_t slots = 0;
  each([&](const Footprint& footprint, Region& region, const Runs& runs) {
    if (!footprint.write) return;
    each_page(region, runs, [&](std::uint32_t& slot) {
      if (slot == no_slot) slot = slots++;
    });
  });
  pages_.resize(slots);
}

History::Region& History::region(const Footprint& footprint, std::uint32_t stream) {
  return regions_[footprint.memory == 0 ? 0 : stream * (memories_ - 1) + footprint.memory];
}

template <class Visit> void History::each_page(Region& region, const Runs& runs, Visit&& visit) {
  const auto page = [&](std::int64_t byte) { return (byte - region.begin) >> region.shift; };
  if (runs.stride <= (std::int64_t{1} << region.shift)) {
    for (std::int64_t p = page(runs.begin); p <= page(runs.end() - 1); ++p)
      visit(region.slots[static_cast<std::size_t>(p)]);
    return;
  }
  std::int64_t last = -1;
  for (std::int64_t run = 0; run < runs.count; ++run)
    for (std::int64_t p = std::max(last + 1, page(runs.start(run))); p <= page(runs.start(run) + runs.bytes - 1); ++p)
      visit(region.slots[static_cast<std::size_t>(last = p)]);
}

void History::look(const std::vector<Accesses>& of_lanes, const Clocks& clocks, std::uint32_t footprint,
                   const Runs& runs) {
  const Footprint& mine = log_.footprints[footprint];
  for (const auto& [lane, items] : of_lanes) {
    std::size_t hits = 0;
    for (auto item = items.rbegin(); item != items.rend() && hits < limit_; ++item) {
      if (clocks.knows(lane, item->position)) break;
      if (item->entry == clocks.entry()) continue;
      const Footprint& other = log_.footprints[item->footprint];
      if (mine.atomic && other.atomic) continue;
      if (!common_byte(runs, runs_of(other))) continue;
      ++hits;
      Race race{ReportKind::core_overlap, item->entry, clocks.entry(), item->footprint, footprint};
      if (race.first > race.second) {
        std::swap(race.first, race.second);
        std::swap(race.first_footprint, race.second_footprint);
      }
      if (log_.entries[race.first].core == log_.entries[race.second].core) {
        const bool write = log_.footprints[race.first_footprint].write;
        race.kind = !write                                         ? ReportKind::race_war
                    : log_.footprints[race.second_footprint].write ? ReportKind::race_waw
                                                                   : ReportKind::race_raw;
      }
      found_.push_back(race);
    }
  }
}

const std::vector<Race>& History::visit(const Clocks& clocks) {
  found_.clear();
  const Entry& entry = log_.entries[clocks.entry()];
  if (entry.event != Event::work) return found_;
  for (std::uint32_t f = entry.footprints; f < entry.footprints + entry.footprint_count; ++f) {
    const Footprint& footprint = log_.footprints[f];
    const Runs runs = runs_of(footprint);
    if (runs.count == 0) continue;
    each_page(region(footprint, lanes_.stream_of(entry)), runs, [&](std::uint32_t slot) {
      if (slot == no_slot) return;
      Page& page = pages_[slot];
      look(page.writes, clocks, f, runs);
      if (footprint.write) look(page.reads, clocks, f, runs);
      auto& of_lanes = footprint.write ? page.writes : page.reads;
      auto mine = std::find_if(of_lanes.begin(), of_lanes.end(),
                               [&](const Accesses& accesses) { return accesses.lane == clocks.lane(); });
      if (mine == of_lanes.end()) mine = of_lanes.insert(of_lanes.end(), Accesses{clocks.lane(), {}});
      mine->items.push_back({clocks.position(), clocks.entry(), f});
    });
  }
  if (found_.size() > 1) {
    const auto key = [](const Race& race) { return std::tuple(race.first, race.second, race.kind); };
    std::sort(found_.begin(), found_.end(), [&](const Race& a, const Race& b) { return key(a) < key(b); });
    found_.erase(std::unique(found_.begin(), found_.end(),
                             [](const Race& a, const Race& b) { return a.first == b.first && a.second == b.second; }),
                 found_.end());
  }
  return found_;
}

}  // namespace inlay::npu
