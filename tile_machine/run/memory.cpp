#include "tile_machine/run/memory.hpp"

#include <algorithm>
#include <utility>

namespace inlay::npu {

namespace {

constexpr std::byte poison{0xff};

std::uint64_t round_up(std::uint64_t value, std::uint64_t granule) { return (value + granule - 1) / granule * granule; }

}  // namespace

void Allocator::reset(std::uint64_t bytes) {
  free_.clear();
  free_.push_back({0, bytes});
}

std::optional<std::uint64_t> Allocator::take(std::uint64_t bytes, std::uint64_t align) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, size] = *range;
    const std::uint64_t first = round_up(begin, align), end = begin + size;
    if (first + bytes > end) continue;
    const Range before{begin, first - begin}, behind{first + bytes, end - first - bytes};
    if (before.bytes > 0 && behind.bytes > 0) {
      *range = before;
      free_.insert(range + 1, behind);
    } else if (before.bytes > 0 || behind.bytes > 0) {
      *range = before.bytes > 0 ? before : behind;
    } else {
      free_.erase(range);
    }
    return first;
  }
  return std::nullopt;
}

void Allocator::give(std::uint64_t begin, std::uint64_t bytes) {
  if (bytes == 0) return;
  const auto next = std::find_if(free_.begin(), free_.end(), [&](const Range& range) { return range.begin > begin; });
  const bool joins_next = next != free_.end() && begin + bytes == next->begin;
  const bool joins_previous = next != free_.begin() && std::prev(next)->begin + std::prev(next)->bytes == begin;
  if (joins_previous) {
    std::prev(next)->bytes += bytes + (joins_next ? next->bytes : 0);
    if (joins_next) free_.erase(next);
  } else if (joins_next) {
    *next = {begin, bytes + next->bytes};
  } else {
    free_.insert(next, {begin, bytes});
  }
}

std::uint64_t Allocator::largest() const {
  std::uint64_t result = 0;
  for (const Range& range : free_) result = std::max(result, range.bytes);
  return result;
}

Memories::Memories(const Device& device, std::uint32_t cores, std::uint32_t streams, bool shadowed, bool backed)
    : device_(device), streams_(streams), shadowed_(shadowed), backed_(backed) {
  for (std::uint32_t stream = 0; stream < cores * streams; ++stream)
    for (std::size_t memory = 1; memory < device.memories.size(); ++memory) {
      const std::uint64_t bytes = device.memories[memory].bytes;
      scratch_.push_back({backed ? std::make_unique_for_overwrite<std::byte[]>(bytes) : nullptr,
                          shadowed ? std::make_unique_for_overwrite<std::uint32_t[]>(bytes) : nullptr,
                          Allocator(bytes)});
    }
}

void Memories::forget() {
  permanent_ = 0;
  buffers_.clear();
  state_.clear();
}

void Memories::restart(bool goes_on) {
  poisons_ = !goes_on;
  buffers_.resize(permanent_);
  state_.resize(permanent_);
  std::vector<AddressSpace::Buffer> named;
  for (std::size_t id = 0; id < permanent_; ++id) {
    State& state = state_[id];
    if (poisons_ && buffers_[id].workspace && state.data != nullptr)
      std::fill_n(state.data, buffers_[id].bytes, poison);
    named.push_back({state.data, buffers_[id].bytes, &state.elements, state.use, buffers_[id].workspace});
  }
  const std::vector<std::uint64_t> addresses = global_.lay_out(named, shadowed_);
  for (std::size_t id = 0; id < permanent_; ++id) buffers_[id].begin = addresses[id];
  ++run_;
}

std::uint32_t Memories::add(Buffer buffer, State state) {
  buffers_.push_back(std::move(buffer));
  state_.push_back(std::move(state));
  return static_cast<std::uint32_t>(buffers_.size() - 1);
}

std::uint32_t Memories::add_global(std::string name, std::byte* data, std::vector<Region> elements, Use use,
                                   SourceLocation site) {
  State state;
  state.data = data;
  state.use = use;
  std::uint64_t bytes = 0;
  for (const Region& region : elements)
    if (region.runs > 0) bytes = std::max(bytes, region.begin + (region.runs - 1) * region.stride + region.bytes);
  state.elements = std::move(elements);
  const std::uint32_t id = add({0, 0, 0, bytes, std::move(name), site, 0}, std::move(state));
  permanent_ = id + 1;
  return id;
}

std::uint32_t Memories::add_workspace(std::string name, std::uint64_t bytes, std::byte* lent, SourceLocation site) {
  const std::uint32_t id = add_global(std::move(name), lent, {Region{0, 1, bytes, 0}}, Use::in_out, site);
  State& state = state_[id];
  if (backed_ && lent == nullptr) {
    state.workspace.resize(bytes);
    state.data = state.workspace.data();
  }
  buffers_[id].workspace = true;
  return id;
}

std::optional<std::uint32_t> Memories::allocate(std::uint32_t core, std::uint8_t stream, Space space, std::string name,
                                                std::uint64_t bytes, SourceLocation site) {
  const std::uint8_t memory = device_.memory_of[static_cast<int>(space)];
  Scratch& place = scratch(core, stream, memory);
  const std::optional<std::uint64_t> begin = place.allocator.take(bytes, device_.memories[memory].align);
  if (!begin) return std::nullopt;
  // A write that a mutation shifts by a granule stays in poisoned memory.
  const std::uint64_t end = std::min(device_.memories[memory].bytes, *begin + bytes + device_.memories[memory].align);
  if (backed_ && poisons_ && end > place.prepared) {
    std::fill(place.bytes.get() + place.prepared, place.bytes.get() + end, poison);
    if (shadowed_) std::fill(place.writer.get() + place.prepared, place.writer.get() + end, none);
    place.prepared = end;
  }
  State state;
  if (backed_) state.data = place.bytes.get() + *begin;
  state.origin = *begin;
  return add({memory, static_cast<std::uint16_t>(core), *begin, bytes, std::move(name), site, stream},
             std::move(state));
}

void Memories::release(std::uint32_t id) {
  const Buffer& buffer = buffers_[id];
  if (buffer.memory == 0 || !state_[id].live) return;
  state_[id].live = false;
  scratch(buffer.core, buffer.stream, buffer.memory).allocator.give(buffer.begin, buffer.bytes);
}

std::uint64_t Memories::largest_free(std::uint32_t core, std::uint8_t stream, Space space) const {
  const std::uint8_t memory = device_.memory_of[static_cast<int>(space)];
  return const_cast<Memories*>(this)->scratch(core, stream, memory).allocator.largest();
}

std::uint32_t* Memories::writers(const Footprint& footprint) {
  if (!shadowed_) return nullptr;
  return scratch(buffers_[footprint.buffer].core, buffers_[footprint.buffer].stream, footprint.memory).writer.get() +
         footprint.begin;
}

std::optional<std::uint64_t> Memories::unwritten(const Footprint& footprint) const {
  if (footprint.memory == 0)
    return global_.unwritten({footprint.begin, footprint.runs, footprint.run_bytes, footprint.stride});
  const std::uint32_t* writer = const_cast<Memories*>(this)->writers(footprint);
  if (writer == nullptr) return std::nullopt;
  for (std::uint32_t run = 0; run < footprint.runs; ++run, writer += footprint.stride) {
    const std::uint32_t* end = writer + footprint.run_bytes;
    const std::uint32_t* wrong = std::find_if(writer, end, [&](std::uint32_t id) { return id != footprint.buffer; });
    if (wrong != end) return footprint.begin + run * footprint.stride + static_cast<std::uint64_t>(wrong - writer);
  }
  return std::nullopt;
}

void Memories::written(const Footprint& footprint) {
  if (footprint.memory == 0)
    return global_.written({footprint.begin, footprint.runs, footprint.run_bytes, footprint.stride});
  std::uint32_t* writer = writers(footprint);
  if (writer == nullptr) return;
  for (std::uint32_t run = 0; run < footprint.runs; ++run)
    std::fill_n(writer + run * footprint.stride, footprint.run_bytes, footprint.buffer);
}

std::optional<std::uint64_t> Memories::unwritten_output(std::uint32_t id) const {
  if (buffers_[id].memory != 0 || state_[id].use != Use::out) return std::nullopt;
  for (Region region : state_[id].elements) {
    region.begin += buffers_[id].begin;
    if (const auto byte = global_.untouched(region)) return *byte - buffers_[id].begin;
  }
  return std::nullopt;
}

}  // namespace inlay::npu
