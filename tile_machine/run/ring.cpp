#include "tile_machine/run/ring.hpp"

#include <utility>

#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

Ring::Ring(Ring&& other) noexcept
    : core_(std::exchange(other.core_, nullptr)),
      flow_(other.flow_),
      site_(other.site_),
      views_(other.views_),
      owned_(other.owned_),
      members_(other.members_),
      tiles_(std::move(other.tiles_)),
      flags_(other.flags_),
      first_slot_(other.first_slot_),
      bound_(std::move(other.bound_)),
      acquired_(other.acquired_),
      committed_(other.committed_),
      waited_(other.waited_),
      released_(other.released_) {}

Tensor Ring::tile(std::uint64_t count, std::size_t member) const {
  Tensor result = tiles_[count % (tiles_.size() / members_) * members_ + member];
  result.slot = slot(count);
  return result;
}

Tensor Ring::acquire(Site site) {
  core_->leave_if_full();
  if (views_) {
    Tensor view = tiles_[0];
    view.view = core_->bind_number();
    view.begin = 0;
    view.pitch = 0;
    bound_.push_back(view.view);
    ++acquired_;
    return view;
  }
  // Functional mode runs in the order of the program: a queue that waits for a release further on has run by then.
  if (acquired_ - released_ >= flow_.depth && !core_->checked_ && !core_->across(flow_.producer, flow_.consumer))
    core_->illegal("ring.acquire", "the slot's release comes later in the program; the ring needs another slot", site);
  if (acquired_ >= flow_.depth)
    core_->await({slot(acquired_), first_slot_, flow_.consumer, flow_.producer, flag(acquired_), flow_.unit,
                  "ring.acquire", site});
  return tile(acquired_++);
}

void Ring::commit(Site site) {
  if (!views_) {
    core_->arrive(slot(committed_));
    core_->ring_sync(Event::set, flow_.producer, flow_.consumer, flag(committed_), "ring.commit", site, flow_.unit);
  }
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
  core_->await(
      {slot(waited_), first_slot_, flow_.producer, flow_.consumer, flag(waited_), flow_.unit, "ring.wait", site});
  return tile(waited_++);
}

void Ring::release(Site site) {
  if (!views_) {
    core_->arrive(slot(released_));
    core_->release_slot(slot(released_), flow_.consumer, flow_.producer, flag(released_), site, flow_.unit);
  } else if (!bound_.empty()) {
    core_->release_view(bound_.front());
    bound_.erase(bound_.begin());
  }
  ++released_;
}

Ring::~Ring() {
  if (core_ == nullptr || views_ || core_->unwinding()) return;
  for (std::uint32_t i = 0; i < flow_.depth; ++i) core_->arrive(first_slot_ + i);
  const std::uint64_t taken = acquired_ > flow_.depth ? acquired_ - flow_.depth : 0;
  for (std::uint64_t left = taken; left < released_; ++left)
    core_->ring_sync(Event::wait, flow_.consumer, flow_.producer, flag(left), "ring", site_);
  core_->give_flags(*this);
  for (const Tensor& slot : tiles_)
    if (owned_ && slot.buffer != none) core_->release(slot, site_);
}

}  // namespace inlay::npu
