// OpenCL on the operands of a bench. A CPU's device looks at them where they lie, without a copy; a GPU gets one of
// each before the first call that takes it, and is timed by its own clock, the kernels alone.
#pragma once

#include <map>
#include <utility>

#include <inlay/cl.hpp>
#include <inlay/core/staging.hpp>

#include "measure/timing.hpp"

namespace inlay::bench {

class ClOnHost {
 public:
  using Space = Host;
  static constexpr std::string_view name = "cl";
  static constexpr bool groups_experts = true;

  explicit ClOnHost(Cl cl) : cl_(std::move(cl)) {}
  ClOnHost(const ClOnHost&) = delete;
  ~ClOnHost() { forget(); }
  // The operands go: others may come to lie where they lay.
  void forget() {
    for (auto& [range, buffer] : buffers_) clReleaseMemObject(buffer);
    buffers_.clear();
  }

  Cl& cl() { return cl_; }
  bool has_memory() const { return !cl_.device().is_cpu; }

  // What a call takes: by the clock, or of a device with memory of its own the time of its kernels.
  template <class Call> double seconds(Call&& call) {
    if (!has_memory()) return measure::seconds(call);
    cl_.kernel_seconds();
    call();
    return cl_.kernel_seconds();
  }
  // What a call writes, to the device and back from it.
  template <class Op> Status send(const Op& op) {
    return each_written(op, [&](cl_mem buffer, void* host, std::size_t bytes) {
      return cl_.upload({buffer, 0}, {static_cast<const std::byte*>(host), bytes});
    });
  }
  template <class Op> Status receive(const Op& op) {
    return each_written(op, [&](cl_mem buffer, void* host, std::size_t bytes) {
      return cl_.download({static_cast<std::byte*>(host), bytes}, {buffer, 0});
    });
  }

  // Bytes that a copy from one buffer to another reads and writes in a second.
  double copy_rate();

  // Buffers over what the views look at, made when a range is first met; where ranges touch, they are one.
  template <class Op> Rebound<InSpace<Op, Cl>> moved(const Op& op) {
    const auto regions = detail::regions<Host, Cl>(op);
    return rebind<Cl>(op, [&](const auto&, const auto& view) {
      using V = std::remove_cvref_t<decltype(view)>;
      ViewIn<V, Cl> result({}, view.dtype, view.extents, view.strides);
      const std::ptrdiff_t at = SpacePointer<Host>::byte_offset(view.data);
      for (const auto& region : regions)
        if (at >= region.begin && at < region.end) result.data = ClAddress{buffer(region), at - region.begin};
      return result;
    });
  }
  SpaceWorkspace<Cl> scratch(std::size_t bytes) {
    if (bytes > scratch_.bytes) {
      if (scratch_.bytes > 0) cl_.release(scratch_.begin);
      const auto made = cl_.allocate(bytes);
      scratch_ = made ? SpaceWorkspace<Cl>{*made, bytes} : SpaceWorkspace<Cl>{};
    }
    return scratch_;
  }

 private:
  template <class Op, class Copy> Status each_written(const Op& op, Copy&& copy) {
    if (!has_memory()) return {};
    for (const auto& region : detail::regions<Host, Cl>(op))
      if (region.is_written())
        if (Status status = copy(buffer(region), region.target(), region.bytes()); !status.ok()) return status;
    return {};
  }
  template <class Region> cl_mem buffer(const Region& region) {
    cl_mem& made = buffers_[{region.begin, region.end}];
    if (made == nullptr)
      made =
          clCreateBuffer(cl_.context(), CL_MEM_READ_WRITE | (has_memory() ? CL_MEM_COPY_HOST_PTR : CL_MEM_USE_HOST_PTR),
                         region.bytes(), const_cast<void*>(region.source()), nullptr);
    return made;
  }

  Cl cl_;
  std::map<std::pair<std::ptrdiff_t, std::ptrdiff_t>, cl_mem> buffers_;
  SpaceWorkspace<Cl> scratch_;
};

template <class Op> Status supports(ClOnHost&, const Op&) { return {}; }
template <class Op> std::size_t scratch_bytes(ClOnHost&, const Op&) { return 0; }
template <class Op> Status compute(ClOnHost& device, const Op& op, Workspace) {
  const auto there = device.moved(op);
  Status status = run(device.cl(), there.op, [&](std::size_t bytes) { return device.scratch(bytes); });
  return status.ok() ? finish(device.cl()) : std::move(status);
}

}  // namespace inlay::bench
