// Allocation and rings.
#include <algorithm>
#include <numeric>

#include "npu_kernels/machine/core.hpp"

namespace inlay::npu {

namespace {

index round_up(index value, index granule) { return (value + granule - 1) / granule * granule; }

std::string text(Shape shape, DType dtype) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.columns) + " " + std::string(name(dtype));
}

}  // namespace

Tensor Core::form(Space space, Shape shape, DType dtype, Layout layout, const char* verb, Site site) {
  Tensor result;
  result.space = space;
  result.dtype = dtype;
  result.layout = layout;
  result.shape = shape;
  if (shape.rows < 0 || shape.columns < 0) {
    illegal(verb, "a shape of " + text(shape, dtype), site);
    return result;
  }
  if (layout == Layout::nz) {
    result.block = fractal_block(dtype);
    if (result.block <= 1) illegal(verb, "the matrix unit reads no " + std::string(name(dtype)), site);
    // Every block starts at a granule of the unit and of the memory.
    const auto align = static_cast<index>(device().memory(space).align);
    const index granule = align / std::gcd(align, byte_size(dtype, result.block));
    result.pitch = round_up(shape.rows, std::lcm(std::max<index>(1, device().matrix.m_granule), granule));
    return result;
  }
  const index granule = std::max<index>(1, static_cast<index>(device().memory(space).align) * 8 / bits(dtype));
  result.pitch = shape.rows == 1 || shape.columns == 1 ? shape.columns : round_up(shape.columns, granule);
  return result;
}

Tensor Core::alloc(std::string_view name, Space space, Shape shape, DType dtype, Layout layout, Site site) {
  Tensor result = form(space, shape, dtype, layout, "alloc", site);
  if (stopped()) return result;
  if (space == Space::global) {
    illegal("alloc", std::string(name) + ": global memory is given to the program, not allocated by it", site);
    return result;
  }
  if (is_view_space(space)) {
    result.view = bind_number();
    result.begin = 0;
    result.pitch = 0;
    return result;
  }
  Tensor storage = result;
  if (layout == Layout::nz) storage.shape.rows = result.pitch;  // the padding rows are memory too
  const std::uint64_t bytes = std::max<std::uint64_t>(1, storage_bytes(storage));
  const auto buffer = run_.memories.allocate(index_, space, std::string(name), bytes, site);
  if (!buffer) {
    const Memory& memory = device().memory(space);
    report(ReportKind::capacity,
           std::string(name) + " (" + text(shape, dtype) + ") needs " + std::to_string(bytes) + " bytes of " +
               std::string(npu::name(space)) + " (" + memory.name + ", " + std::to_string(memory.bytes) +
               " bytes); the largest free range has " + std::to_string(run_.memories.largest_free(index_, space)),
           site);
    return result;
  }
  result.buffer = *buffer;
  result.begin = run_.memories.buffer(*buffer).begin;
  if (checked()) {
    Entry allocate = entry(Event::allocate, Pipe::scalar, "alloc", site);
    allocate.buffer = *buffer;
    record(allocate, {});
  }
  return result;
}

void Core::release(const Tensor& tensor, Site site) {
  if (tensor.view != none) return;
  if (!usable("release", {&tensor}, site)) return;
  if (checked()) {
    Entry release = entry(Event::release, Pipe::scalar, "release", site);
    release.buffer = tensor.buffer;
    record(release, {});
  }
  run_.memories.release(tensor.buffer);
}

std::uint32_t Core::bind_number() {
  if (free_bindings_.empty()) {
    bindings_.emplace_back();
    return static_cast<std::uint32_t>(bindings_.size() - 1);
  }
  const std::uint32_t number = free_bindings_.back();
  free_bindings_.pop_back();
  return number;
}

// From the top, so that a kernel's own flags can start at 0.
bool Core::take_flags(Ring& ring, std::string_view name) {
  constexpr std::uint32_t counted = 64;  // ids beyond it are the kernel's
  const Sync& sync = device().sync;
  const std::uint32_t wanted = sync.depth >= ring.depth_ ? 1 : ring.depth_;
  std::uint64_t &forth = ring_flags(ring.producer_, ring.consumer_), &back = ring_flags(ring.consumer_, ring.producer_);
  for (std::uint32_t id = std::min(sync.flags, counted); id > 0 && ring.flags_.size() < wanted; --id)
    if (((forth | back) >> (id - 1) & 1) == 0) ring.flags_.push_back(static_cast<std::uint16_t>(id - 1));
  if (ring.flags_.size() < wanted) {
    report(ReportKind::capacity,
           "ring " + std::string(name) + " needs " + std::to_string(wanted) + " flags of " +
               std::string(npu::name(ring.producer_)) + " -> " + std::string(npu::name(ring.consumer_)) + "; " +
               std::to_string(ring.flags_.size()) + " of " + std::to_string(sync.flags) + " are left",
           ring.site_);
    ring.flags_.clear();
    return false;
  }
  for (std::uint16_t id : ring.flags_) {
    forth |= std::uint64_t{1} << id;
    back |= std::uint64_t{1} << id;
  }
  return true;
}

void Core::give_flags(const Ring& ring) {
  for (std::uint16_t id : ring.flags_) {
    ring_flags(ring.producer_, ring.consumer_) &= ~(std::uint64_t{1} << id);
    ring_flags(ring.consumer_, ring.producer_) &= ~(std::uint64_t{1} << id);
  }
}

Ring Core::ring(std::string_view name, Space space, std::uint32_t depth, Shape shape, DType dtype, Pipe producer,
                Pipe consumer, Layout layout, Site site) {
  Ring result(*this, std::max(1u, depth), role(producer), role(consumer), site);
  result.views_ = is_view_space(space);
  if (result.views_) {
    result.tiles_.push_back(form(space, shape, dtype, layout, "ring", site));
    return result;
  }
  std::uint32_t slots = result.depth_;
  if (slots > 1 && mutated(MutationKind::halve_ring, "ring", site)) slots /= 2;
  result.first_slot_ = static_cast<std::uint32_t>(slots_.size());
  slots_.resize(slots_.size() + result.depth_);
  for (std::uint32_t i = 0; i < slots; ++i)
    result.tiles_.push_back(
        alloc(std::string(name) + "[" + std::to_string(i) + "]", space, shape, dtype, layout, site));
  if (!stopped()) take_flags(result, name);
  if (result.flags_.empty()) result.flags_.push_back(0);
  return result;
}

Ring Core::ring(std::string_view name, std::vector<Tensor> tiles, Pipe producer, Pipe consumer, Site site) {
  Ring result(*this, static_cast<std::uint32_t>(std::max<std::size_t>(1, tiles.size())), role(producer), role(consumer),
              site);
  result.owned_ = false;
  result.first_slot_ = static_cast<std::uint32_t>(slots_.size());
  slots_.resize(slots_.size() + result.depth_);
  if (tiles.empty()) illegal("ring", std::string(name) + " has no tiles", site);
  if (tiles.size() > 1 && mutated(MutationKind::halve_ring, "ring", site)) tiles.resize(tiles.size() / 2);
  result.tiles_ = tiles.empty() ? std::vector<Tensor>(1) : std::move(tiles);
  if (!stopped()) take_flags(result, name);
  if (result.flags_.empty()) result.flags_.push_back(0);
  return result;
}

void Core::release_slot(std::uint32_t number, Pipe from, Pipe to, std::uint16_t flag, Site site) {
  Slot& slot = slots_[number];
  if (slot.views > 0) {
    slot.late = true;
    slot.from = from;
    slot.to = to;
    slot.flag = flag;
    slot.site = site;
    return;
  }
  ring_sync(Event::set, from, to, flag, "ring.release", site);
}

void Core::release_view(std::uint32_t view) {
  const std::uint32_t number = bindings_[view].slot;
  bindings_[view] = Tensor{};
  free_bindings_.push_back(view);
  if (number == none || slots_[number].views == 0) return;
  Slot& slot = slots_[number];
  if (--slot.views > 0 || !slot.late) return;
  slot.late = false;
  ring_sync(Event::set, slot.from, slot.to, slot.flag, "ring.release", slot.site);
}

Ring::Ring(Ring&& other) noexcept
    : core_(std::exchange(other.core_, nullptr)),
      depth_(other.depth_),
      producer_(other.producer_),
      consumer_(other.consumer_),
      site_(other.site_),
      views_(other.views_),
      owned_(other.owned_),
      tiles_(std::move(other.tiles_)),
      flags_(std::move(other.flags_)),
      first_slot_(other.first_slot_),
      bound_(std::move(other.bound_)),
      acquired_(other.acquired_),
      committed_(other.committed_),
      waited_(other.waited_),
      released_(other.released_) {}

Tensor Ring::tile(std::uint64_t count) const {
  Tensor result = tiles_[count % tiles_.size()];
  result.slot = slot(count);
  return result;
}

Tensor Ring::acquire(Site site) {
  if (views_) {
    Tensor view = tiles_[0];
    view.view = core_->bind_number();
    view.begin = 0;
    view.pitch = 0;
    bound_.push_back(view.view);
    ++acquired_;
    return view;
  }
  if (acquired_ >= depth_) core_->ring_sync(Event::wait, consumer_, producer_, flag(acquired_), "ring.acquire", site);
  return tile(acquired_++);
}

void Ring::commit(Site site) {
  if (!views_) core_->ring_sync(Event::set, producer_, consumer_, flag(committed_), "ring.commit", site);
  ++committed_;
}

Tensor Ring::wait(Site site) {
  if (views_) {
    Tensor view = tiles_[0];
    const std::uint64_t place = waited_++ - released_;
    if (place >= bound_.size()) {
      core_->illegal("ring.wait", "no tile was acquired for it", site);
      return view;
    }
    view.view = bound_[place];
    view.begin = 0;
    view.pitch = 0;
    return view;
  }
  core_->ring_sync(Event::wait, producer_, consumer_, flag(waited_), "ring.wait", site);
  return tile(waited_++);
}

void Ring::release(Site site) {
  if (!views_) {
    core_->release_slot(slot(released_), consumer_, producer_, flag(released_), site);
  } else if (!bound_.empty()) {
    core_->release_view(bound_.front());
    bound_.pop_front();
  }
  ++released_;
}

Ring::~Ring() {
  if (core_ == nullptr || views_) return;
  const std::uint64_t taken = acquired_ > depth_ ? acquired_ - depth_ : 0;
  for (std::uint64_t left = taken; left < released_; ++left)
    core_->ring_sync(Event::wait, consumer_, producer_, flag(left), "ring", site_);
  core_->give_flags(*this);
  for (const Tensor& slot : tiles_)
    if (owned_ && slot.buffer != none) core_->release(slot, site_);
}

}  // namespace inlay::npu
