// Allocation and rings.
#include <algorithm>
#include <numeric>

#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

Tensor MachineCore::form(Space space, Shape shape, DType dtype, Layout layout, const char* verb, Site site) {
  Tensor result;
  result.space = space;
  result.dtype = dtype;
  result.layout = layout;
  result.shape = shape;
  if (shape.rows < 0 || shape.columns < 0) {
    illegal(verb, "a shape of " + describe(shape, dtype), site);
    return result;
  }
  if (layout == Layout::nz) {
    result.block = device().fractal_block(dtype);
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

Tensor MachineCore::alloc(std::string_view name, Space space, Shape shape, DType dtype, Layout layout, Site site) {
  Tensor result = form(space, shape, dtype, layout, "alloc", site);
  if (stopped() || !has(space)) return result;
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
  const auto buffer = run_.memories.allocate(index_, stream_, space, std::string(name), bytes, site);
  if (!buffer) {
    const Memory& memory = device().memory(space);
    report(ReportKind::capacity,
           std::string(name) + " (" + describe(shape, dtype) + ") needs " + std::to_string(bytes) + " bytes of " +
               std::string(npu::name(space)) + " (" + memory.name + ", " + std::to_string(memory.bytes) +
               " bytes); the largest free range has " +
               std::to_string(run_.memories.largest_free(index_, stream_, space)),
           site);
    return result;
  }
  result.buffer = *buffer;
  result.begin = run_.memories.buffer(*buffer).begin;
  record_life(Event::allocate, *buffer, site);
  return result;
}

void MachineCore::release(const Tensor& tensor, Site site) {
  if (tensor.view != none || !has(tensor.space)) return;
  if (!usable("release", {&tensor}, site)) return;
  record_life(Event::release, tensor.buffer, site);
  run_.memories.release(tensor.buffer);
}

std::uint32_t MachineCore::bind_number() {
  if (free_bindings_.empty()) {
    bindings_.emplace_back();
    return static_cast<std::uint32_t>(bindings_.size() - 1);
  }
  const std::uint32_t number = free_bindings_.back();
  free_bindings_.pop_back();
  return number;
}

// From the top, so that a kernel's own flags can start at 0.
bool MachineCore::take_flags(Ring& ring, std::string_view name) {
  constexpr std::uint32_t counted = 64;  // ids beyond it are the kernel's
  const Sync& sync = device().sync;
  const bool streams = across(ring.flow_.producer, ring.flow_.consumer);
  const std::uint32_t ids = streams ? sync.stream_flags : sync.flags;
  const std::uint32_t wanted = (streams ? sync.stream_depth : sync.depth) >= ring.flow_.depth ? 1 : ring.flow_.depth;
  const bool mine = is_mine(Event::set, ring.flow_.producer, ring.flow_.consumer) ||
                    is_mine(Event::wait, ring.flow_.producer, ring.flow_.consumer);
  if (!mine) return true;
  std::uint64_t &forth = ring_flags(ring.flow_.producer, ring.flow_.consumer),
                &back = ring_flags(ring.flow_.consumer, ring.flow_.producer);
  for (std::uint32_t id = std::min(ids, counted); id > 0 && ring.flags_.size() < wanted; --id)
    if (((forth | back) >> (id - 1) & 1) == 0) ring.flags_.push_back(static_cast<std::uint16_t>(id - 1));
  if (ring.flags_.size() < wanted) {
    report(ReportKind::capacity,
           "ring " + std::string(name) + " needs " + std::to_string(wanted) + " flags of " +
               std::string(npu::name(ring.flow_.producer)) + " -> " + std::string(npu::name(ring.flow_.consumer)) +
               "; " + std::to_string(ring.flags_.size()) + " of " + std::to_string(ids) + " are left",
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

void MachineCore::give_flags(const Ring& ring) {
  for (std::uint16_t id : ring.flags_) {
    ring_flags(ring.flow_.producer, ring.flow_.consumer) &= ~(std::uint64_t{1} << id);
    ring_flags(ring.flow_.consumer, ring.flow_.producer) &= ~(std::uint64_t{1} << id);
  }
}

Ring MachineCore::ring_of(std::string_view name, const TileForm* forms, std::size_t count, Flow flow, Site site) {
  Ring result(*this, {std::max(1u, flow.depth), role(flow.producer), role(flow.consumer), flow.unit}, site);
  result.views_ = is_view_space(forms[0].space) && has(forms[0].space);
  result.members_ = count;
  for (std::size_t i = 0; i < count; ++i)
    if (count > 1 && is_view_space(forms[i].space))
      illegal("ring", std::string(name) + " is of tuples, which views of staging cannot be part of", site);
  if (result.views_) {
    for (std::size_t i = 0; i < count; ++i)
      result.tiles_.push_back(form(forms[i].space, forms[i].shape, forms[i].dtype, forms[i].layout, "ring", site));
    return result;
  }
  const bool joined = result.flow_.producer == Pipe::matrix && result.flow_.consumer == Pipe::drain;
  if (flow.unit && (!joined || device().sync.unit_flag_bytes == 0))
    illegal("ring",
            std::string(name) + ": " + device().name + " has no unit flag from " +
                std::string(npu::name(flow.producer)) + " to " + std::string(npu::name(flow.consumer)),
            site);
  std::uint32_t slots = result.flow_.depth;
  const bool here = std::any_of(forms, forms + count, [&](const TileForm& each) { return has(each.space); });
  if (slots > 1 && here && mutated(MutationKind::halve_ring, "ring", site)) slots /= 2;
  result.first_slot_ = static_cast<std::uint32_t>(slots_.size());
  slots_.resize(slots_.size() + result.flow_.depth);
  result.tiles_.reserve(slots * count);
  for (std::uint32_t i = 0; i < slots; ++i)
    for (const TileForm* each = forms; each != forms + count; ++each) {
      const std::string name_of_slot = checked_ ? std::string(each->name) + "[" + std::to_string(i) + "]" : "";
      result.tiles_.push_back(alloc(checked_ ? std::string_view(name_of_slot) : each->name, each->space, each->shape,
                                    each->dtype, each->layout, site));
    }
  if (!stopped()) take_flags(result, name);
  if (result.flags_.empty()) result.flags_.push_back(0);
  return result;
}

Ring MachineCore::ring(std::string_view name, std::vector<Tensor> tiles, Pipe producer, Pipe consumer, Site site) {
  const auto depth = static_cast<std::uint32_t>(std::max<std::size_t>(1, tiles.size()));
  Ring result(*this, {depth, role(producer), role(consumer)}, site);
  result.owned_ = false;
  result.first_slot_ = static_cast<std::uint32_t>(slots_.size());
  slots_.resize(slots_.size() + result.flow_.depth);
  if (tiles.empty()) illegal("ring", std::string(name) + " has no tiles", site);
  if (tiles.size() > 1 && mutated(MutationKind::halve_ring, "ring", site)) tiles.resize(tiles.size() / 2);
  result.tiles_ = tiles.empty() ? std::vector<Tensor>(1) : std::move(tiles);
  if (!stopped()) take_flags(result, name);
  if (result.flags_.empty()) result.flags_.push_back(0);
  return result;
}

// A flag of several slots counts: earlier waits of its ring go first.
void MachineCore::arrive(std::uint32_t slot) {
  if (slot == none || waits_.empty()) return;
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    if (waits_[i].slot != slot) continue;
    const Wait wanted = waits_[i];
    std::size_t left = 0;
    for (std::size_t j = 0; j < waits_.size(); ++j) {
      const Wait wait = waits_[j];
      if (j <= i && wait.ring == wanted.ring && wait.to == wanted.to)
        ring_sync(Event::wait, wait.from, wait.to, wait.flag, wait.verb, wait.site, wait.unit);
      else
        waits_[left++] = wait;
    }
    waits_.resize(left);
    return arrive(slot);  // the other side's
  }
}

void MachineCore::release_slot(std::uint32_t number, Pipe from, Pipe to, std::uint16_t flag, Site site, bool unit) {
  Slot& slot = slots_[number];
  if (slot.views > 0) {
    slot.late = true;
    slot.from = from;
    slot.to = to;
    slot.flag = flag;
    slot.site = site;
    return;
  }
  ring_sync(Event::set, from, to, flag, "ring.release", site, unit);
}

void MachineCore::release_view(std::uint32_t view) {
  const std::uint32_t number = bindings_[view].slot;
  bindings_[view] = Tensor{};
  free_bindings_.push_back(view);
  if (number == none || slots_[number].views == 0) return;
  Slot& slot = slots_[number];
  if (--slot.views > 0 || !slot.late) return;
  slot.late = false;
  ring_sync(Event::set, slot.from, slot.to, slot.flag, "ring.release", slot.site);
}

}  // namespace inlay::npu
