// Tensors of a model in the memory of its backend. They are taken one by one and given back together, with the
// object that they were taken from. On the host nothing is copied: a view that is brought there is the view itself.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/core/overlap.hpp>
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

  template <int Rank> Expected<ConstView<Rank>> bring(const ConstView<Rank>& host) { return host; }
  template <int Rank> Expected<ConstView<Rank>> bring_again(std::size_t, const ConstView<Rank>& host) { return host; }
  template <int Rank> Expected<ConstView<Rank>> to_host(const ConstView<Rank>& view) { return view; }

 private:
  std::vector<std::shared_ptr<Mapping>> kept_;
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

  // A copy of host memory, made once.
  template <int Rank> Expected<ConstView<Rank, Space>> bring(const ConstView<Rank>& host) {
    Slot slot;
    auto brought = upload(slot, host);
    if (slot.memory) kept_.push_back(std::move(*slot.memory));
    return brought;
  }

  // The same into memory that the next call with this number uses again: what changes with every pass.
  template <int Rank> Expected<ConstView<Rank, Space>> bring_again(std::size_t number, const ConstView<Rank>& host) {
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

  // All that lies between the first and the last byte of the view, so that its strides stay.
  template <int Rank> Expected<ConstView<Rank, Space>> upload(Slot& slot, const ConstView<Rank>& host) {
    ConstView<Rank, Space> view({}, host.dtype, host.extents, host.strides);
    if (host.empty()) return view;
    const Footprint range = footprint(host);
    const auto bytes = static_cast<std::size_t>(range.end - range.begin);
    if (bytes > slot.bytes) {
      auto memory = Allocation<Device>::make(*device_, bytes);
      if (!memory) return failure(std::move(memory.error()));
      slot.memory = std::move(*memory);
      slot.bytes = bytes;
    }
    const std::ptrdiff_t first = SpacePointer<Host>::byte_offset(host.data) - range.begin;
    const auto* begin = static_cast<const std::byte*>(host.data) - first;
    if (Status status = device_->upload(slot.memory->data(), {begin, bytes}); !status.ok())
      return failure(std::move(status));
    view.data = SpacePointer<Space>::advance(slot.memory->data(), first);
    return view;
  }

  Device* device_;
  std::vector<Allocation<Device>> kept_;
  std::vector<Slot> slots_;
  std::vector<std::byte> host_;
};

// The tensors of a backend.
template <class Backend> auto tensors_of([[maybe_unused]] Backend& backend) {
  if constexpr (std::is_same_v<SpaceOf<Backend>, Host>)
    return HostTensors();
  else
    return DeviceTensors<Backend>(backend);
}

}  // namespace inlay::exec
