#include "npu_kernels/machine/run/memory.hpp"

#include <algorithm>
#include <utility>

namespace inlay::npu {

namespace {

constexpr std::byte poison{0xff};
constexpr std::uint64_t global_granule = 512;  // buffers of global memory start at multiples of it

std::uint64_t round_up(std::uint64_t value, std::uint64_t granule) { return (value + granule - 1) / granule * granule; }

}  // namespace

Allocator::Allocator(std::uint64_t bytes) { free_.emplace(0, bytes); }

std::optional<std::uint64_t> Allocator::take(std::uint64_t bytes, std::uint64_t align) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, size] = *range;
    const std::uint64_t first = round_up(begin, align);
    if (first + bytes > begin + size) continue;
    free_.erase(range);
    if (first > begin) free_.emplace(begin, first - begin);
    if (first + bytes < begin + size) free_.emplace(first + bytes, begin + size - first - bytes);
    return first;
  }
  return std::nullopt;
}

void Allocator::give(std::uint64_t begin, std::uint64_t bytes) {
  if (bytes == 0) return;
  const auto range = free_.emplace(begin, bytes).first;
  const auto next = std::next(range);
  if (next != free_.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  const auto previous = std::prev(range);
  if (previous->first + previous->second != range->first) return;
  previous->second += range->second;
  free_.erase(range);
}

std::uint64_t Allocator::largest() const {
  std::uint64_t result = 0;
  for (const auto& range : free_) result = std::max(result, range.second);
  return result;
}

Memories::Memories(const Device& device, std::uint32_t cores, bool shadowed, bool backed)
    : device_(device), shadowed_(shadowed), backed_(backed) {
  for (std::uint32_t core = 0; core < cores; ++core)
    for (std::size_t memory = 1; memory < device.memories.size(); ++memory) {
      const std::uint64_t bytes = device.memories[memory].bytes;
      scratch_.push_back({backed ? std::make_unique_for_overwrite<std::byte[]>(bytes) : nullptr,
                          shadowed ? std::make_unique_for_overwrite<std::uint32_t[]>(bytes) : nullptr, Allocator(bytes),
                          0});
    }
}

void Memories::restart() {
  buffers_.resize(permanent_);
  state_.resize(permanent_);
  for (State& state : state_) {
    std::fill(state.workspace.begin(), state.workspace.end(), poison);
    if (state.use != Use::in_out || !state.workspace.empty()) std::fill(state.writer.begin(), state.writer.end(), none);
  }
  for (Scratch& scratch : scratch_) {
    const std::size_t memory = 1 + static_cast<std::size_t>(&scratch - scratch_.data()) % (device_.memories.size() - 1);
    scratch.allocator = Allocator(device_.memories[memory].bytes);
    scratch.prepared = 0;
  }
}

std::uint32_t Memories::add(Buffer buffer, State state) {
  buffers_.push_back(std::move(buffer));
  state_.push_back(std::move(state));
  return static_cast<std::uint32_t>(buffers_.size() - 1);
}

std::uint32_t Memories::add_global(std::string name, std::byte* data, std::uint64_t bytes, Use use,
                                   SourceLocation site) {
  State state;
  state.data = data;
  state.use = use;
  const auto id = static_cast<std::uint32_t>(buffers_.size());
  if (shadowed_ && use != Use::in) state.writer.assign(bytes, use == Use::out ? none : id);
  const std::uint64_t begin = next_global_;
  next_global_ = round_up(begin + bytes, global_granule);
  permanent_ = id + 1;
  return add({0, 0, begin, bytes, std::move(name), site}, std::move(state));
}

std::uint32_t Memories::add_workspace(std::string name, std::uint64_t bytes, SourceLocation site) {
  const std::uint32_t id = add_global(std::move(name), nullptr, bytes, Use::in_out, site);
  State& state = state_[id];
  if (backed_) {
    state.workspace.assign(bytes, poison);
    state.data = state.workspace.data();
  }
  std::fill(state.writer.begin(), state.writer.end(), none);
  buffers_[id].workspace = true;
  return id;
}

std::optional<std::uint32_t> Memories::allocate(std::uint32_t core, Space space, std::string name, std::uint64_t bytes,
                                                SourceLocation site) {
  const std::uint8_t memory = device_.memory_of[static_cast<int>(space)];
  Scratch& place = scratch(core, memory);
  const std::optional<std::uint64_t> begin = place.allocator.take(bytes, device_.memories[memory].align);
  if (!begin) return std::nullopt;
  // A write that a mutation shifts by a granule stays in poisoned memory.
  const std::uint64_t end = std::min(device_.memories[memory].bytes, *begin + bytes + device_.memories[memory].align);
  if (backed_ && end > place.prepared) {
    std::fill(place.bytes.get() + place.prepared, place.bytes.get() + end, poison);
    if (shadowed_) std::fill(place.writer.get() + place.prepared, place.writer.get() + end, none);
    place.prepared = end;
  }
  State state;
  if (backed_) state.data = place.bytes.get() + *begin;
  return add({memory, static_cast<std::uint16_t>(core), *begin, bytes, std::move(name), site}, std::move(state));
}

void Memories::release(std::uint32_t id) {
  const Buffer& buffer = buffers_[id];
  if (buffer.memory == 0 || !state_[id].live) return;
  state_[id].live = false;
  scratch(buffer.core, buffer.memory).allocator.give(buffer.begin, buffer.bytes);
}

std::uint64_t Memories::largest_free(std::uint32_t core, Space space) const {
  const std::uint8_t memory = device_.memory_of[static_cast<int>(space)];
  return const_cast<Memories*>(this)->scratch(core, memory).allocator.largest();
}

bool Memories::inside(const Tensor& tensor) const {
  const Buffer& buffer = buffers_[tensor.buffer];
  return tensor.begin >= buffer.begin && tensor.begin + storage_bytes(tensor) <= buffer.begin + buffer.bytes;
}

std::uint32_t* Memories::writers(const Footprint& footprint) {
  if (!shadowed_) return nullptr;
  if (footprint.memory != 0)
    return scratch(buffers_[footprint.buffer].core, footprint.memory).writer.get() + footprint.begin;
  State& state = state_[footprint.buffer];
  return state.writer.empty() ? nullptr : state.writer.data() + (footprint.begin - buffers_[footprint.buffer].begin);
}

std::optional<std::uint64_t> Memories::unwritten(const Footprint& footprint) const {
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
  std::uint32_t* writer = writers(footprint);
  if (writer == nullptr) return;
  for (std::uint32_t run = 0; run < footprint.runs; ++run)
    std::fill_n(writer + run * footprint.stride, footprint.run_bytes, footprint.buffer);
}

std::optional<std::uint64_t> Memories::unwritten_output(std::uint32_t id) const {
  const State& state = state_[id];
  if (state.use != Use::out) return std::nullopt;
  const auto wrong = std::find(state.writer.begin(), state.writer.end(), none);
  return wrong == state.writer.end() ? std::nullopt : std::optional<std::uint64_t>(wrong - state.writer.begin());
}

}  // namespace inlay::npu
