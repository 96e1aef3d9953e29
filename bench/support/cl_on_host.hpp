// OpenCL on the operands of a bench as they lie in host memory: a device that shares it looks at them without a copy.
// INLAY_BENCH_CL=1 times it beside the CPU's kernels, call by call, and prints the share of their speed that it
// reaches.
#pragma once

#include <map>
#include <utility>

#include <inlay/cl.hpp>
#include <inlay/core/staging.hpp>

namespace inlay::bench {

class ClOnHost {
 public:
  using Space = Host;
  static constexpr std::string_view name = "cl";

  explicit ClOnHost(Cl cl) : cl_(std::move(cl)) {}
  ClOnHost(const ClOnHost&) = delete;
  ~ClOnHost() {
    for (auto& [range, buffer] : buffers_) clReleaseMemObject(buffer);
  }

  Cl& cl() { return cl_; }

  // Buffers over what the views look at, made when a range is first met; where ranges touch, they are one.
  template <class Op> Rebound<InSpace<Op, Cl>> moved(const Op& op) {
    const auto regions = detail::regions<Host, Cl>(op);
    return rebind<Cl>(op, [&](const auto&, const auto& view) {
      using V = std::remove_cvref_t<decltype(view)>;
      using Moved = std::conditional_t<std::is_same_v<V, View<V::rank>>, View<V::rank, Cl>, ConstView<V::rank, Cl>>;
      Moved result({}, view.dtype, view.extents, view.strides);
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
  template <class Region> cl_mem buffer(const Region& region) {
    cl_mem& made = buffers_[{region.begin, region.end}];
    if (made == nullptr)
      made = clCreateBuffer(cl_.context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, region.bytes(),
                            const_cast<void*>(region.source()), nullptr);
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
