#include "tile_machine/run/replay_log.hpp"

#include <algorithm>
#include <bit>

#include <inlay/core/float_modes.hpp>

namespace inlay::npu {

void ReplayLog::place(std::span<std::byte* const> buffers) {
  if (std::equal(buffers_.begin(), buffers_.end(), buffers.begin(), buffers.end())) return;
  buffers_.assign(buffers.begin(), buffers.end());
  for (const Moving& each : moving_) *each.pointer = buffers_[each.buffer] + each.offset;
}

ReplayLog::Header* ReplayLog::at(Place& place) {
  if (place.chunk < chunks_.size() && place.byte == chunks_[place.chunk].used) place = {place.chunk + 1, 0};
  if (place.chunk >= chunks_.size() || place.byte == chunks_[place.chunk].used) return nullptr;
  return std::launder(reinterpret_cast<Header*>(chunks_[place.chunk].bytes.get() + place.byte));
}

bool ReplayLog::play() {
  const fp::NoFlushing device;  // its arithmetic is not that of the thread that simulates it
  Place place;
  for (played_ = 0; Header* const header = at(place); ++played_) {
    if (!header->call(reinterpret_cast<std::byte*>(header + 1))) return false;
    place = behind(place, *header);
  }
  return whole_;
}

void ReplayLog::resume() {
  passed_ = 0;
  passing_ = {};
  whole_ = false;
}

// What comes behind the last step that has been played is done anew.
bool ReplayLog::passes_over() {
  if (passed_ < played_) {
    passing_ = behind(passing_, *at(passing_));
    ++passed_;
    return true;
  }
  if (steps_ > played_) {
    at(passing_);
    for (; chunks_.size() > passing_.chunk + 1; chunks_.pop_back()) bytes_ -= chunks_.back().size;
    chunks_.back().used = passing_.byte;
    while (!moving_.empty() && moving_.back().step > played_) moving_.pop_back();
    steps_ = played_;
  }
  ++passed_, ++played_;
  return false;
}

std::byte* ReplayLog::keep(Call call, std::size_t bytes) {
  constexpr std::size_t smallest = std::size_t{1} << 12, largest = std::size_t{1} << 18;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment, wanted = sizeof(Header) + whole;
  if (chunks_.empty() || chunks_.back().size - chunks_.back().used < wanted) {
    const std::size_t size = std::max(wanted, chunks_.empty() ? smallest : std::min(2 * chunks_.back().size, largest));
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size, 0});
    bytes_ += size;
  }
  Chunk& chunk = chunks_.back();
  auto* const header = new (chunk.bytes.get() + chunk.used) Header{call, whole};
  chunk.used += wanted;
  ++steps_;
  return reinterpret_cast<std::byte*>(header + 1);
}

bool ReplayLog::Read::operator()() const {
  return std::bit_cast<std::uint64_t>(tiles::read(from, 0, 0)) == std::bit_cast<std::uint64_t>(value);
}

double ReplayLog::read(const Tile& from) {
  if (too_long_) return from.data == nullptr ? 0 : tiles::read(from, 0, 0);
  if (passed_ < played_) {
    const double value = std::launder(reinterpret_cast<const Read*>(at(passing_) + 1))->value;
    passes_over();
    return value;
  }
  const Read step{from, from.data == nullptr ? 0 : tiles::read(from, 0, 0)};
  add(step, {{step.from.form, step.from.data}});
  return step.value;
}

void ReplayLog::clear() {
  chunks_.clear();
  moving_.clear();
  buffers_.clear();
  steps_ = played_ = bytes_ = 0;
}

void ReplayLog::give_up() {
  clear();
  too_long_ = true;
}

}  // namespace inlay::npu
