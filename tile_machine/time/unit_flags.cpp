#include "tile_machine/time/unit_flags.hpp"

#include <algorithm>

namespace inlay::npu {

UnitFlags::UnitFlags(const EventLog& log, const Device& device, const EventOrder& order) {
  const auto unit_set = [&](std::uint32_t index) { return index != no_entry && order.kind(index).unit_flag; };
  if (device.sync.unit_flag_bytes == 0 || !order.unit_flags()) return;
  for (auto* table : {&leader_, &wait_, &set_}) table->assign(log.entries.size(), no_entry);
  const auto granular = [](const EntryKind& entry) { return entry.moves || entry.multiplies; };
  for (std::uint32_t lane = 0; lane < order.lanes(); ++lane) {
    std::uint32_t work = no_entry, last = no_entry;  // before this entry; the last set of it
    for (std::uint32_t index : order.queue(lane)) {
      if (order.kind(index).event == Event::work) {
        work = last = granular(order.kind(index)) ? index : no_entry;
      } else if (unit_set(index) && work != no_entry) {
        leader_[index] = work;
        set_[last] = index;
        last = index;
      }
    }
  }
  for (std::uint32_t lane = 0; lane < order.lanes(); ++lane) {
    std::uint32_t wait = no_entry;  // of a unit flag, since the last work
    for (std::uint32_t index : order.queue(lane)) {
      const EntryKind& entry = order.kind(index);
      if (entry.waits && unit_set(order.partner(index))) wait = index;
      if (entry.event != Event::work) continue;
      if (wait != no_entry && granular(entry)) leader_[index] = leader_[order.partner(wait)];
      wait_[index] = wait;
      wait = no_entry;
    }
  }
}

Tick UnitFlags::granule(const Device& device, const Work& work, Tick units) {
  const std::uint64_t bytes = work.unit == Unit::matrix
                                  ? std::uint64_t{work.m} * work.n * static_cast<std::uint64_t>(bits(work.out)) / 8
                                  : work.bytes;
  const std::uint64_t granule = std::max<std::uint64_t>(1, device.sync.unit_flag_bytes);
  return units / static_cast<Tick>(std::max<std::uint64_t>(1, (bytes + granule - 1) / granule));
}

}  // namespace inlay::npu
