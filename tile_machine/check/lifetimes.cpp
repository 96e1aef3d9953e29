#include "tile_machine/check/lifetimes.hpp"

#include <algorithm>
#include <bit>

#include "tile_machine/events/overlap.hpp"

namespace inlay::npu {
namespace {

constexpr std::uint64_t word = 64;

// Visits the words that hold bits [first, last), each with the mask of its bits. Stops when visit says so.
template <class Visit> bool each_word(std::uint64_t first, std::uint64_t last, Visit&& visit) {
  while (first < last) {
    const std::uint64_t end = std::min(last, (first / word + 1) * word);
    const std::uint64_t count = end - first;
    const std::uint64_t mask = (count == word ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << first % word;
    if (!visit(first / word, mask)) return false;
    first = end;
  }
  return true;
}

// Entries or buffers.
template <class T> bool same_stream(const T& a, const T& b) { return a.core == b.core && a.stream == b.stream; }

}  // namespace

Lifetimes::Lifetimes(const EventLog& log) : log_(log), bytes_(log.buffers.size()) {}

const std::vector<Lifetimes::Finding>& Lifetimes::visit(std::uint32_t e) {
  found_.clear();
  const Entry& entry = log_.entries[e];
  if (entry.event == Event::allocate) allocate(e);
  if (entry.event == Event::release) {
    bytes_[entry.buffer].released = e;
    live_.erase(std::remove(live_.begin(), live_.end(), entry.buffer), live_.end());
  }
  if (entry.event != Event::work) return found_;
  const auto footprints = [&](bool write, auto&& visit) {
    for (std::uint32_t f = entry.footprints; f < entry.footprints + entry.footprint_count; ++f) {
      const Footprint& footprint = log_.footprints[f];
      if (footprint.write == write && footprint.buffer < bytes_.size()) visit(footprint, bytes_[footprint.buffer]);
    }
  };
  const auto use = [&](const Footprint& footprint, const Bytes& bytes) {
    if (bytes.released < e && same_stream(log_.entries[bytes.released], entry))
      found_.push_back({ReportKind::use_after_release, e, bytes.released, footprint.buffer, footprint.begin});
  };
  footprints(false, [&](const Footprint& footprint, const Bytes& bytes) {
    use(footprint, bytes);
    if (bytes.allocated != no_entry && bytes.missing > 0) read(e, footprint);
  });
  footprints(true, [&](const Footprint& footprint, const Bytes& bytes) {
    use(footprint, bytes);
    if (bytes.allocated != no_entry && bytes.missing > 0) write(footprint);
  });
  return found_;
}

void Lifetimes::allocate(std::uint32_t e) {
  const std::uint32_t b = log_.entries[e].buffer;
  const Buffer& buffer = log_.buffers[b];
  for (const std::uint32_t other : live_) {
    const Buffer& there = log_.buffers[other];
    if (there.memory != buffer.memory || (buffer.memory != 0 && !same_stream(there, buffer))) continue;
    const std::uint64_t byte = std::max(there.begin, buffer.begin);
    if (byte < there.begin + there.bytes && byte < buffer.begin + buffer.bytes)
      found_.push_back({ReportKind::capacity, e, bytes_[other].allocated, b, byte});
  }
  live_.push_back(b);
  bytes_[b] = {std::vector<std::uint64_t>((buffer.bytes + word - 1) / word), buffer.bytes, e, no_entry};
}

// Runs of the footprint as bytes of its buffer, cut to it.
template <class Visit> void Lifetimes::each_run(const Footprint& footprint, Visit&& visit) const {
  const Buffer& buffer = log_.buffers[footprint.buffer];
  const Runs runs = runs_of(footprint);
  const auto begin = static_cast<std::int64_t>(buffer.begin), bytes = static_cast<std::int64_t>(buffer.bytes);
  for (std::int64_t run = 0; run < runs.count; ++run) {
    const std::int64_t first = std::max<std::int64_t>(0, runs.start(run) - begin);
    const std::int64_t last = std::min(bytes, runs.start(run) + runs.bytes - begin);
    if (first < last && !visit(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last))) return;
  }
}

void Lifetimes::read(std::uint32_t e, const Footprint& footprint) {
  const Bytes& bytes = bytes_[footprint.buffer];
  each_run(footprint, [&](std::uint64_t first, std::uint64_t last) {
    return each_word(first, last, [&](std::uint64_t index, std::uint64_t mask) {
      const std::uint64_t missing = mask & ~bytes.bits[index];
      if (missing == 0) return true;
      const std::uint64_t byte = index * word + static_cast<std::uint64_t>(std::countr_zero(missing));
      found_.push_back({ReportKind::uninitialised_read, e, bytes.allocated, footprint.buffer,
                        log_.buffers[footprint.buffer].begin + byte});
      return false;
    });
  });
}

void Lifetimes::write(const Footprint& footprint) {
  Bytes& bytes = bytes_[footprint.buffer];
  each_run(footprint, [&](std::uint64_t first, std::uint64_t last) {
    return each_word(first, last, [&](std::uint64_t index, std::uint64_t mask) {
      bytes.missing -= static_cast<std::uint64_t>(std::popcount(mask & ~bytes.bits[index]));
      bytes.bits[index] |= mask;
      return true;
    });
  });
  if (bytes.missing == 0) bytes.bits = {};
}

}  // namespace inlay::npu
