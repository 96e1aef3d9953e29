#include "tile_machine/check/scalar_lines.hpp"

#include <algorithm>

#include "tile_machine/events/overlap.hpp"

namespace inlay::npu {

ScalarLines::ScalarLines(const EventLog& log, const Device& device)
    : log_(log), lanes_(log, device), line_bytes_(device.scalar.line) {
  if (device.scalar.coherent) return;
  for (const Entry& entry : log.entries) {
    if (entry.event != Event::work || entry.work.unit != Unit::scalar) continue;
    for (std::uint32_t f = entry.footprints; f < entry.footprints + entry.footprint_count; ++f) {
      const Footprint& at = log.footprints[f];
      if (at.memory != 0 || runs_of(at).count == 0) continue;
      const auto end = static_cast<std::uint64_t>(runs_of(at).end());
      for (std::uint64_t line = at.begin / line_bytes_; line * line_bytes_ < end; ++line) lines_[line];
    }
  }
}

template <class Visit> void ScalarLines::each_line(std::uint32_t footprint, Visit&& visit) {
  const Footprint& at = log_.footprints[footprint];
  const Runs runs = runs_of(at);
  if (at.memory != 0 || runs.count == 0) return;
  const auto bytes = static_cast<std::int64_t>(line_bytes_);
  for (auto line = lines_.lower_bound(at.begin / line_bytes_); line != lines_.end(); ++line) {
    const auto begin = static_cast<std::int64_t>(line->first) * bytes;
    if (begin >= runs.end()) return;
    if (common_byte(runs, {begin, bytes, 0, 1})) visit(line->second);
  }
}

ScalarLines::Copy* ScalarLines::copy_of(Line& line, std::uint32_t unit) {
  const auto found = std::find_if(line.copies.begin(), line.copies.end(),
                                  [&](const Copy& copy) { return copy.unit == unit && !copy.gone; });
  return found == line.copies.end() ? nullptr : &*found;
}

std::size_t ScalarLines::cleaned(const Copy& copy, const Clocks& clocks) const {
  std::size_t writes = 0;
  for (const Clean& clean : copy.cleans)
    if (clocks.knows(clean.access.lane, clean.access.position)) writes = clean.writes;
  return writes;
}

ScalarLines::Copy& ScalarLines::make_copy(Line& line, const Clocks& clocks, std::uint32_t unit) {
  if (Copy* copy = copy_of(line, unit)) return *copy;
  Copy copy{.unit = unit, .gone = false, .writes = {}, .cleans = {}, .had_of_copy = {}, .had_transfer = {}};
  for (const Copy& other : line.copies) copy.had_of_copy.push_back(cleaned(other, clocks));
  for (const Access& transfer : line.transfers)
    copy.had_transfer.push_back(clocks.knows(transfer.lane, transfer.position));
  line.copies.push_back(std::move(copy));
  return line.copies.back();
}

bool ScalarLines::meet(const Access& one, const Access& other) const {
  return common_byte(runs_of(log_.footprints[one.footprint]), runs_of(log_.footprints[other.footprint])).has_value();
}

void ScalarLines::read(Line& line, const Clocks& clocks, const Access& access, std::uint32_t unit) {
  const Copy& mine = make_copy(line, clocks, unit);
  for (std::size_t c = 0; c < line.copies.size(); ++c) {
    const Copy& other = line.copies[c];
    if (other.unit == unit) continue;
    const std::size_t had = c < mine.had_of_copy.size() ? mine.had_of_copy[c] : 0, clean = cleaned(other, clocks);
    for (std::size_t w = had; w < other.writes.size(); ++w)
      if (clocks.knows(other.writes[w].lane, other.writes[w].position) && meet(access, other.writes[w]))
        found(w < clean ? Fault::stale : Fault::not_clean, access, other.writes[w]);
  }
  for (std::size_t t = 0; t < line.transfers.size(); ++t) {
    const Access& transfer = line.transfers[t];
    if ((t >= mine.had_transfer.size() || !mine.had_transfer[t]) && clocks.knows(transfer.lane, transfer.position) &&
        meet(access, transfer))
      found(Fault::stale, access, transfer);
  }
}

void ScalarLines::write(Line& line, const Clocks& clocks, const Access& access, std::uint32_t unit) {
  Copy& mine = make_copy(line, clocks, unit);
  mine.writes.push_back(access);
  for (std::size_t c = 0; c < line.copies.size(); ++c) {
    const Copy& other = line.copies[c];
    const std::size_t had = c < mine.had_of_copy.size() ? mine.had_of_copy[c] : 0;
    if (other.unit != unit && had < other.writes.size()) found(Fault::lost, access, other.writes[had]);
  }
  for (std::size_t t = 0; t < line.transfers.size(); ++t)
    if (t >= mine.had_transfer.size() || !mine.had_transfer[t]) found(Fault::lost, access, line.transfers[t]);
}

void ScalarLines::move(Line& line, const Clocks& clocks, const Access& access, bool writes) {
  for (const Copy& copy : line.copies) {
    const std::size_t clean = cleaned(copy, clocks);
    for (std::size_t w = clean; w < copy.writes.size(); ++w) {
      const bool known = clocks.knows(copy.writes[w].lane, copy.writes[w].position);
      if (writes ? w == clean : known && meet(access, copy.writes[w]))
        found(writes ? Fault::lost : Fault::not_clean, access, copy.writes[w]);
    }
  }
  if (writes) line.transfers.push_back(access);
}

const std::vector<ScalarLines::Finding>& ScalarLines::visit(const Clocks& clocks) {
  found_.clear();
  const Entry& entry = log_.entries[clocks.entry()];
  if (lines_.empty() || entry.event != Event::work) return found_;
  const std::uint32_t unit = lanes_.stream_of(entry);
  for (std::uint32_t f = entry.footprints; f < entry.footprints + entry.footprint_count; ++f) {
    const Access access{clocks.lane(), clocks.position(), clocks.entry(), f};
    const bool writes = log_.footprints[f].write;
    each_line(f, [&](Line& line) {
      if (entry.work.unit != Unit::scalar) return move(line, clocks, access, writes);
      Copy* const copy = copy_of(line, unit);
      switch (entry.line) {
        case LineVerb::none: return writes ? write(line, clocks, access, unit) : read(line, clocks, access, unit);
        case LineVerb::clean:
          if (copy != nullptr) copy->cleans.push_back({access, copy->writes.size()});
          return;
        case LineVerb::invalidate:
          if (copy == nullptr) return;
          if (copy->clean() < copy->writes.size()) found(Fault::not_clean, access, copy->writes[copy->clean()]);
          copy->gone = true;
      }
    });
  }
  return found_;
}

const std::vector<ScalarLines::Finding>& ScalarLines::end() {
  found_.clear();
  for (const auto& [number, line] : lines_)
    for (const Copy& copy : line.copies)
      for (std::size_t w = copy.gone ? copy.writes.size() : copy.clean(); w < copy.writes.size(); ++w) {
        const Access& write = copy.writes[w];
        const std::uint32_t buffer = log_.footprints[write.footprint].buffer;
        if (buffer >= log_.buffers.size() || !log_.buffers[buffer].workspace) found(Fault::not_clean, write, write);
      }
  return found_;
}

}  // namespace inlay::npu
