// OpenCL as a backend of host memory: steps that were recorded over that are computed there, each with Cl's own bits.
//
//   ClOverHost cl(std::move(*Cl::make()));
//   Status status = cl.share(byte_range(weight), ClOverHost::Contents::stay);   // all that steps will look at
//   StepRunner run(std::ref(cl));                                               // of steps recorded for ClOverHost
//
// What it knows of is a table of regions, each with a buffer of the device's:
//
//   host    | weight |    | arena: x ... y ... |    | cache |
//   device  | buffer |    | buffer             |    | buffer |      a view: {buffer of its region, its place in that}
//
// A device that is this processor looks at the memory where it lies (CL_MEM_USE_HOST_PTR): around each step what it
// reads and what it has written is mapped and unmapped in the queue's order, and nothing is copied. For every other
// one, what a step reads is copied there before it and what it writes is copied back behind it, row by row: bytes
// between the rows are another step's. What stays as it is was copied once.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <inlay/cl.hpp>
#include <inlay/core/layout.hpp>
#include <inlay/core/rebind.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/plan/accesses.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

class ClOverHost {
 public:
  using Space = Host;
  static constexpr std::string_view name = "cl";
  static constexpr bool groups_experts = true;

  enum class Contents : unsigned char { change, stay };

  // `copies`: even where the device could look at host memory.
  explicit ClOverHost(Cl cl, bool copies = false);
  ClOverHost(ClOverHost&&) = default;
  ~ClOverHost();

  const Cl& cl() const { return cl_; }
  // Does it copy?
  bool copies() const { return copies_; }
  std::size_t regions() const { return regions_.size(); }

  // Memory that steps look at, until it is forgotten; it may join regions that are known. What stays was written
  // before.
  Status share(ByteRange memory, Contents contents);
  // What the steps of a line look at that are `used`: what any step of the line writes changes, the rest stays.
  template <class Used> Status share(const StepGraph& graph, Used&& used) {
    Status status;
    const auto share_each = [&](const GraphStep& step, Contents contents) {
      for (const Access& access : step.accesses)
        if (status.ok() && (access.writes || contents == Contents::stay))
          status = share({access.begin, access.end()}, contents);
    };
    for (const GraphStep& step : graph.steps()) share_each(step, Contents::change);
    for (std::size_t step = 0; step < graph.steps().size(); ++step)
      if (used(step)) share_each(graph.steps()[step], Contents::stay);
    return status;
  }
  // The regions that lie within it. Nothing is under way.
  void forget(ByteRange memory);

  // An operator over host memory, done when this returns.
  template <class Op> Status compute(const Op& op) {
    const Accesses accesses = accesses_of(op);
    Status status = check(accesses);
    if (!status.ok()) return status;
    const auto there = rebind<Cl>(op, [&]<class V>(const auto&, const V& view) {
      return ViewIn<V, Cl>(view.empty() ? ClAddress() : address_of(SpacePointer<Host>::byte_offset(view.data)),
                           view.dtype, view.extents, view.strides);
    });
    status = bring(accesses);
    if (status.ok()) status = run_with(cl_, scratch_, there.op);
    if (status.ok()) status = fetch(accesses);
    Status finished = cl_.finish();
    return status.ok() ? std::move(finished) : std::move(status);
  }

 private:
  struct Region {
    std::ptrdiff_t end;
    Contents contents;
    ClAddress first;  // where it begins in its buffer
  };
  using Regions = std::map<std::ptrdiff_t, Region>;  // by where they begin; they do not overlap

  Status check(const Accesses& accesses) const;
  // The region that holds the byte, or none.
  Regions::const_iterator region_of(std::ptrdiff_t at) const;
  ClAddress address_of(std::ptrdiff_t at) const {
    const auto region = region_of(at);
    return SpacePointer<Cl>::advance(region->second.first, at - region->first);
  }
  Expected<Region> make(ByteRange memory, Contents contents);
  void release(const Region& region);
  Status bring(const Accesses& accesses);
  Status fetch(const Accesses& accesses);
  Status map(const Access& access, cl_map_flags flags, cl_bool waits);
  Status copy(const Access& access, bool to_device);

  Cl cl_;
  bool copies_;
  Scratch<Cl> scratch_;
  Regions regions_;
};

template <class Op> Status supports(const ClOverHost&, const Op&) { return {}; }
template <class Op> std::size_t scratch_bytes(const ClOverHost&, const Op&) { return 0; }
template <class Op> Status compute(ClOverHost& backend, const Op& op, const Workspace&) { return backend.compute(op); }

}  // namespace inlay::exec
