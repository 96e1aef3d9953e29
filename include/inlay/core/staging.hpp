// An operator on a backend whose memory its operands do not lie in: they are copied there, and what was written is
// copied back. Tests and tools bring host operands to a device this way; the executor takes a device's operands
// to the host for an operator that the device declares unsupported.
//
//   run_from_host(device, op)              op over Host, computed by `device`
//   run_on_host(device, cpu, op)           op over the device's space, computed by `cpu`
//
// Copies are made of ranges of bytes, not of views: views that share memory share it in the copy too, and an
// address keeps its remainder by 64.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/layout.hpp>

namespace inlay {

// What a backend with memory of its own offers beside kernels. Copies keep the order of what was given to it;
// `from` may be reused when upload returns, and download waits.
template <class B>
concept OwnsMemory = requires(B& backend, typename SpacePointer<SpaceOf<B>>::Mutable p,
                              typename SpacePointer<SpaceOf<B>>::Const c, std::span<const std::byte> from,
                              std::span<std::byte> to) {
  { backend.allocate(std::size_t{}) } -> std::same_as<Expected<typename SpacePointer<SpaceOf<B>>::Mutable>>;
  backend.release(p);  // allocate's result, aligned to workspace_alignment
  { backend.upload(p, from) } -> std::same_as<Status>;
  { backend.download(to, c) } -> std::same_as<Status>;
};

// Host memory by the same four words.
struct HostMemory {
  using Space = Host;

  Expected<void*> allocate(std::size_t bytes) {
    void* p = ::operator new(bytes, std::align_val_t(workspace_alignment), std::nothrow);
    if (p == nullptr) return failure(StatusCode::out_of_memory, "no memory for " + std::to_string(bytes) + " bytes");
    return p;
  }
  void release(void* p) { ::operator delete(p, std::align_val_t(workspace_alignment)); }
  Status upload(void* to, std::span<const std::byte> from) {
    std::copy(from.begin(), from.end(), static_cast<std::byte*>(to));
    return {};
  }
  Status download(std::span<std::byte> to, const void* from) {
    std::copy_n(static_cast<const std::byte*>(from), to.size(), to.data());
    return {};
  }
};
static_assert(OwnsMemory<HostMemory>);

// What one allocation of `memory` points with; given back at the end of its life.
template <OwnsMemory Memory> class Allocation {
 public:
  using Pointer = typename SpacePointer<SpaceOf<Memory>>::Mutable;

  static Expected<Allocation> make(Memory& memory, std::size_t bytes) {
    auto made = memory.allocate(bytes);
    if (!made) return failure(std::move(made.error()));
    return Allocation(memory, *made);
  }
  // What the device has made in another way.
  static Allocation adopt(Memory& memory, Pointer data) { return Allocation(memory, data); }
  Allocation(Allocation&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), data_(other.data_) {}
  Allocation& operator=(Allocation&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Allocation() {
    if (memory_ != nullptr) memory_->release(data_);
  }

  Pointer data() const { return data_; }

 private:
  Allocation(Memory& memory, Pointer data) : memory_(&memory), data_(data) {}

  Memory* memory_;
  Pointer data_;
};

namespace detail {

// A range of bytes that views of an operator look at, and its copy in another space.
template <class From, class Memory> struct Region {
  typename SpacePointer<From>::Const at;           // some address in the range's allocation
  std::ptrdiff_t begin, end;                       // offsets in that allocation
  typename SpacePointer<From>::Mutable written{};  // another one, where a view of the range is written
  std::optional<Allocation<Memory>> copy = {};

  bool is_written() const { return written != typename SpacePointer<From>::Mutable{}; }
  std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  // Where the range begins; the copy keeps its remainder by 64.
  auto source() const { return SpacePointer<From>::advance(at, begin - SpacePointer<From>::byte_offset(at)); }
  auto target() const { return SpacePointer<From>::advance(written, begin - SpacePointer<From>::byte_offset(written)); }
  auto staged() const {
    return SpacePointer<SpaceOf<Memory>>::advance(copy->data(),
                                                  begin % static_cast<std::ptrdiff_t>(workspace_alignment));
  }

  bool touches(const Region& other) const {
    return SpacePointer<From>::allocation(at) == SpacePointer<From>::allocation(other.at) && begin < other.end &&
           other.begin < end;
  }
};

inline namespace INLAY_UNIT_ISA {

template <class From, class Memory, class Op> std::vector<Region<From, Memory>> regions(const Op& op) {
  std::vector<Region<From, Memory>> list;
  for_each_view(op, [&](const auto& field, const auto& view) {
    using V = std::remove_cvref_t<decltype(view)>;
    if constexpr (std::is_same_v<typename V::space, From>) {
      if (view.empty()) return;
      const ByteRange bytes = byte_range(view);
      Region<From, Memory> region{view.data, bytes.begin, bytes.end};
      if constexpr (std::is_same_v<V, View<V::rank, From>>)
        if (field.is_written()) region.written = view.data;
      // A range that joins two others is met again: until nothing touches it.
      for (std::size_t i = 0; i < list.size();) {
        if (!region.touches(list[i])) {
          ++i;
          continue;
        }
        region.begin = std::min(region.begin, list[i].begin);
        region.end = std::max(region.end, list[i].end);
        if (list[i].is_written()) region.written = list[i].written;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
        i = 0;
      }
      list.push_back(std::move(region));
    }
  });
  return list;
}

// Copies, runs and copies back. `upload(region)` and `fetch(region)` move the bytes between the spaces.
template <class Backend, class Memory, class Op, class Upload, class Fetch>
Status run_staged(Backend& backend, Memory& memory, const Op& op, Upload&& upload, Fetch&& fetch) {
  using From = SpaceOfOp<Op>;
  using To = SpaceOf<Memory>;
  // Before anything is looked at: a view may be nonsense.
  if (Status status = check(op); !status.ok()) return status;
  // What a view without elements points at: with a null pointer it might look like one that was left out.
  auto nothing = Allocation<Memory>::make(memory, workspace_alignment);
  if (!nothing) return std::move(nothing.error());
  auto list = regions<From, Memory>(op);
  for (auto& region : list) {
    auto copy = Allocation<Memory>::make(memory, region.bytes() + workspace_alignment);
    if (!copy) return std::move(copy.error());
    region.copy = std::move(*copy);
  }
  const auto moved = rebind<To>(op, [&](const auto&, const auto& view) {
    using V = std::remove_cvref_t<decltype(view)>;
    using Moved = std::conditional_t<std::is_same_v<V, View<V::rank, From>>, View<V::rank, To>, ConstView<V::rank, To>>;
    Moved result(nothing->data(), view.dtype, view.extents, view.strides);
    if (view.empty()) return result;
    const ByteRange bytes = byte_range(view);
    for (const auto& region : list)
      if (region.touches({view.data, bytes.begin, bytes.end}))
        result.data =
            SpacePointer<To>::advance(region.staged(), SpacePointer<From>::byte_offset(view.data) - region.begin);
    return result;
  });
  // What will be declined is not copied first.
  if (Status status = supports(backend, moved.op); !status.ok()) return status;
  for (auto& region : list)
    if (Status status = upload(region); !status.ok()) return status;
  std::optional<Allocation<Memory>> scratch;
  Status failed;
  Status status = run(backend, moved.op, [&](std::size_t bytes) {
    WorkspaceIn<To> workspace{};
    if (bytes == 0) return workspace;
    auto made = Allocation<Memory>::make(memory, bytes);
    if (!made) {
      failed = std::move(made.error());
      return workspace;
    }
    scratch = std::move(*made);
    if constexpr (std::is_same_v<To, Host>)
      workspace = {static_cast<std::byte*>(scratch->data()), bytes};
    else
      workspace = {scratch->data(), bytes};
    return workspace;
  });
  if (!failed.ok()) return failed;
  if (!status.ok()) return status;
  status = finish(backend);
  for (const auto& region : list)
    if (region.is_written())
      if (Status fetched = fetch(region); !fetched.ok()) return fetched;
  return status;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

template <OwnsMemory Device, class Op>
requires std::is_same_v<SpaceOfOp<Op>, Host> Status run_from_host(Device& device, const Op& op) {
  return detail::run_staged(
      device, device, op,
      [&](const auto& region) {
        return device.upload(region.staged(), {static_cast<const std::byte*>(region.source()), region.bytes()});
      },
      [&](const auto& region) {
        return device.download({static_cast<std::byte*>(region.target()), region.bytes()}, region.staged());
      });
}

template <OwnsMemory Device, class Backend, class Op>
requires RunsOn<Device, Op> Status run_on_host(Device& device, Backend& host, const Op& op) {
  HostMemory memory;
  return detail::run_staged(
      host, memory, op,
      [&](const auto& region) {
        return device.download({static_cast<std::byte*>(region.staged()), region.bytes()}, region.source());
      },
      [&](const auto& region) {
        return device.upload(region.target(), {static_cast<const std::byte*>(region.staged()), region.bytes()});
      });
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
