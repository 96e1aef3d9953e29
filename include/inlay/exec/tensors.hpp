// Tensors of a model in the memory of its backend. They are taken one by one and given back together, with the
// object that they were taken from. On the host nothing is copied: a view that is uploaded there is the view itself.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/core/layout.hpp>
#include <inlay/core/staging.hpp>
#include <inlay/model/mapped_file.hpp>

namespace inlay::exec {

// The host's, in pages that cost nothing before they are written.
class HostTensors {
 public:
  using Space = Host;

  template <int Rank> Expected<View<Rank>> make(DType dtype, const std::array<index, Rank>& extents) {
    View<Rank> view(nullptr, dtype, extents);
    auto memory = Mapping::anonymous(static_cast<std::size_t>(byte_size(dtype, view.size())));
    if (!memory) return failure(std::move(memory.error()));
    view.data = (*memory)->mutable_data();
    kept_.push_back(std::move(*memory));
    return view;
  }

  template <int Rank> Expected<ConstView<Rank>> upload(const ConstView<Rank>& host) { return host; }
  // Does what was uploaded have to outlive its views?
  bool looks_at_host() const { return true; }
  template <int Rank> Expected<ConstView<Rank>> upload_to_slot(std::size_t, const ConstView<Rank>& host) {
    return host;
  }
  template <int Rank> Expected<ConstView<Rank>> to_host(const ConstView<Rank>& view) { return view; }

 private:
  std::vector<std::shared_ptr<Mapping>> kept_;
};

// Memory for `view`: the host's or a device's, out of `tensors`.
template <class Tensors, int Rank, class Space>
Status take(Tensors& tensors, DType dtype, const std::type_identity_t<std::array<index, Rank>>& extents,
            View<Rank, Space>& view) {
  auto made = tensors.template make<Rank>(dtype, extents);
  if (!made) return std::move(made.error());
  view = *made;
  return {};
}

// A device that may read host memory where it lies: nothing where a copy is due.
template <class B>
concept MapsMemory = OwnsMemory<B> && requires(B& backend, std::span<const std::byte> host) {
  { backend.map(host) } -> std::same_as<Expected<std::optional<typename SpacePointer<SpaceOf<B>>::Mutable>>>;
};

// A device's. It must outlive them.
template <OwnsMemory Device> class DeviceTensors {
 public:
  using Space = SpaceOf<Device>;

  explicit DeviceTensors(Device& device) : device_(&device) {}

  // What it holds before it is written is unknown.
  template <int Rank> Expected<View<Rank, Space>> make(DType dtype, const std::array<index, Rank>& extents) {
    View<Rank, Space> view({}, dtype, extents);
    if (view.empty()) return view;
    auto memory = Allocation<Device>::make(*device_, static_cast<std::size_t>(byte_size(dtype, view.size())));
    if (!memory) return failure(std::move(memory.error()));
    view.data = memory->data();
    kept_.push_back(std::move(*memory));
    return view;
  }

  // Host memory that does not change: looked at where it lies, if the device can, else copied once.
  template <int Rank> Expected<ConstView<Rank, Space>> upload(const ConstView<Rank>& host) {
    if constexpr (MapsMemory<Device>) {
      auto mapped = map(host);
      if (!mapped) return failure(std::move(mapped.error()));
      if (*mapped) return **mapped;
    }
    Slot slot;
    auto uploaded = upload(slot, host);
    if (slot.memory) kept_.push_back(std::move(*slot.memory));
    return uploaded;
  }

  bool looks_at_host() const { return looks_at_host_; }

  // The same into memory that the next call with this number uses again: what changes with every pass.
  template <int Rank> Expected<ConstView<Rank, Space>> upload_to_slot(std::size_t number, const ConstView<Rank>& host) {
    if (slots_.size() <= number) slots_.resize(number + 1);
    return upload(slots_[number], host);
  }

  // A contiguous view's elements, valid until the next call.
  template <int Rank> Expected<ConstView<Rank>> to_host(const ConstView<Rank, Space>& view) {
    host_.resize(static_cast<std::size_t>(byte_size(view.dtype, view.size())));
    if (!host_.empty())
      if (Status status = device_->download(host_, view.data); !status.ok()) return failure(std::move(status));
    return ConstView<Rank>(host_.data(), view.dtype, view.extents);
  }

 private:
  struct Slot {
    std::optional<Allocation<Device>> memory = {};
    std::size_t bytes = 0;
  };

  // All that lies between the first and the last byte of a view, so that its strides stay.
  struct Range {
    std::span<const std::byte> bytes;
    std::ptrdiff_t first;  // where the view begins in it
  };
  template <int Rank> static Range range_of(const ConstView<Rank>& host) {
    const ByteRange range = byte_range(host);
    const std::ptrdiff_t first = SpacePointer<Host>::byte_offset(host.data) - range.begin;
    return {{static_cast<const std::byte*>(host.data) - first, static_cast<std::size_t>(range.end - range.begin)},
            first};
  }

  template <int Rank> Expected<std::optional<ConstView<Rank, Space>>> map(const ConstView<Rank>& host) {
    ConstView<Rank, Space> view({}, host.dtype, host.extents, host.strides);
    if (host.empty()) return view;
    const Range range = range_of(host);
    auto mapped = device_->map(range.bytes);
    if (!mapped) return failure(std::move(mapped.error()));
    if (!*mapped) return std::optional<ConstView<Rank, Space>>();
    kept_.push_back(Allocation<Device>::adopt(*device_, **mapped));
    view.data = SpacePointer<Space>::advance(**mapped, range.first);
    looks_at_host_ = true;
    return view;
  }

  template <int Rank> Expected<ConstView<Rank, Space>> upload(Slot& slot, const ConstView<Rank>& host) {
    ConstView<Rank, Space> view({}, host.dtype, host.extents, host.strides);
    if (host.empty()) return view;
    const Range range = range_of(host);
    if (range.bytes.size() > slot.bytes) {
      auto memory = Allocation<Device>::make(*device_, range.bytes.size());
      if (!memory) return failure(std::move(memory.error()));
      slot.memory = std::move(*memory);
      slot.bytes = range.bytes.size();
    }
    if (Status status = device_->upload(slot.memory->data(), range.bytes); !status.ok())
      return failure(std::move(status));
    view.data = SpacePointer<Space>::advance(slot.memory->data(), range.first);
    return view;
  }

  Device* device_;
  std::vector<Allocation<Device>> kept_;
  std::vector<Slot> slots_;
  std::vector<std::byte> host_;
  bool looks_at_host_ = false;
};

// The tensors of a backend.
template <class Backend> auto tensors_of([[maybe_unused]] Backend& backend) {
  if constexpr (std::is_same_v<SpaceOf<Backend>, Host>)
    return HostTensors();
  else
    return DeviceTensors<Backend>(backend);
}

}  // namespace inlay::exec
