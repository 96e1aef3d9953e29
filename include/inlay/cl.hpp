// The OpenCL backend: hand-written kernels on any OpenCL 1.2 device, through the ICD loader.
//
//   auto cl = Cl::make();                                    // INLAY_CL_DEVICE, or the best device there is
//   auto cl = Cl::make(context, queue);                      // an engine's own: nothing else is created beside them
//   run(*cl, RmsNorm<Cl>{.x = {{memory, offset}, DType::f32, {tokens, dim}}, ..});
//   Status status = finish(*cl);                             // waits; tells the first index that was out of range
//
// Views point with {cl_mem, byte offset}: a part of an engine's buffer needs no sub-buffer. One that reaches beyond its
// buffer is refused. Two cl_mem are taken for two allocations; who makes sub-buffers that overlap answers for aliases
// himself. A Cl is used by one thread at a time. Programs are built when they are first needed, and kept
// (ClOptions::cache keeps them on disk as well).
#pragma once

#include <CL/cl.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/layout.hpp>

namespace inlay {

// What a view over Cl points with: `offset` bytes into a buffer.
struct ClAddress {
  cl_mem memory = nullptr;
  std::ptrdiff_t offset = 0;
  bool operator==(const ClAddress&) const = default;
};
struct ConstClAddress {
  cl_mem memory = nullptr;
  std::ptrdiff_t offset = 0;
  ConstClAddress() = default;
  ConstClAddress(cl_mem m, std::ptrdiff_t o) : memory(m), offset(o) {}
  ConstClAddress(ClAddress p) : memory(p.memory), offset(p.offset) {}
  bool operator==(const ConstClAddress&) const = default;
};

template <> struct SpacePointer<Cl> {
  using Mutable = ClAddress;
  using Const = ConstClAddress;
  static const void* allocation(Const p) { return p.memory; }
  static std::ptrdiff_t byte_offset(Const p) { return p.offset; }
  template <class P> static P advance(P p, std::ptrdiff_t n) {
    p.offset += n;
    return p;
  }
};
static_assert(MemorySpace<Cl>);

// How kernels are cut. `per_item`: a work-item computes a tile by itself, with vectors and without barriers.
// `per_group`: the work-items of a group share a tile through local memory and reduce by butterflies.
enum class ClShape : unsigned char { by_device, per_item, per_group };

struct ClOptions {
  std::string device = {};  // a part of the device's or its platform's name; empty: INLAY_CL_DEVICE
  ClShape shape =
      ClShape::by_device;          // CPUs, and devices whose groups hold fewer than 256: per_item; others: per_group
  std::string language = {};       // "CL1.2", "CL3.0"; empty: INLAY_CL_LANGUAGE, else the newest that compiles
  bool only_fallbacks = false;     // no subgroups, no doubles, no assembly: the OpenCL C that `language` names
  bool profiling = false;          // the queue measures kernels: Cl::kernel_seconds
  std::string cache = {};          // a directory for built programs; empty: INLAY_CL_CACHE, else none
  std::string build_options = {};  // the compiler's beside ours: "-cl-opt-disable"; empty: INLAY_CL_BUILD_OPTIONS
  std::string tuning = {};         // a file of `inlay tune`; empty: INLAY_CL_TUNING, else none; "none": none
};

// What a device says of itself, and what follows for kernels.
struct ClDevice {
  std::string platform, name, vendor, driver;
  std::string language;                 // the newest OpenCL C that it compiles: CL1.2, CL2.0, CL3.0
  std::vector<std::string> extensions;  // sorted
  bool is_cpu = false;
  bool shares_memory = false;  // with the host: buffers are mapped, not copied
  std::size_t compute_units = 0;
  std::size_t max_work_group = 0;  // work-items
  std::size_t local_bytes = 0;     // of one work-group
  std::size_t global_bytes = 0;
  std::size_t max_allocation = 0;  // bytes of one buffer

  bool has(std::string_view extension) const;
};

// Every device of every platform. An error says what is missing: a loader without platforms, a platform without
// devices.
Expected<std::vector<ClDevice>> cl_devices();

namespace cl {
class Runtime;
class Recording;
}  // namespace cl

// What Cl::record kept.
class ClRecording {
 public:
  ClRecording(ClRecording&&) noexcept;
  ClRecording& operator=(ClRecording&&) noexcept;
  ~ClRecording();

  std::size_t launches() const;

 private:
  friend class Cl;
  explicit ClRecording(std::unique_ptr<cl::Recording> recording);
  std::unique_ptr<cl::Recording> recording_;
};

class Cl {
 public:
  using Space = Cl;
  static constexpr std::string_view name = "cl";

  static Expected<Cl> make(const ClOptions& options = {});
  // An engine's own context and in-order queue, which are retained. options.device and .profiling do not matter.
  static Expected<Cl> make(cl_context context, cl_command_queue queue, const ClOptions& options = {});
  Cl(Cl&&) noexcept;
  Cl& operator=(Cl&&) noexcept;
  ~Cl();  // waits for what still runs

  const ClDevice& device() const;
  const ClOptions& options() const;  // as they were chosen: no shape by_device, no empty language
  cl_context context() const;
  cl_command_queue queue() const;

  // Buffers of the pool: released ones are given out again, without a call of the driver. Aligned to 64 bytes and more.
  Expected<ClAddress> allocate(std::size_t bytes);
  void release(ClAddress buffer);
  // A buffer over host memory that it may look at as it is, read only, where the device can: nothing where a copy is
  // due. The memory outlives the buffer, which release gives back.
  Expected<std::optional<ClAddress>> map(std::span<const std::byte> host);
  // In the queue's order. `from` is free again when it returns, though its bytes may still be on their way.
  Status upload(ClAddress to, std::span<const std::byte> from);
  Status download(std::span<std::byte> to, ConstClAddress from);
  // Buffers that the driver was asked for so far; a decode step makes none after the first.
  std::size_t allocations() const;

  // Waits for all that was given to the queue. The first index out of range that a kernel met since the last call. An
  // engine may wait by itself and call it seldom: once there are more than 4096 places at which kernels might have met
  // one, `run` waits for the queue, and keeps what was met for this call.
  Status finish();
  // The kernels of all operators that `body` runs, with their arguments, in place of what they compute: they are given
  // to the queue by replay, as often as one likes, and read and write what their views pointed to, which must be there
  // still, workspaces included. Contents may have changed, of lists too: what a kernel meets is told by finish(). The
  // first failure that `body` returns is this call's. Copies between host and device are refused within.
  //
  //   auto step = cl->record([&] { return run(*cl, RmsNorm<Cl>{..}); });
  //   Status status = cl->replay(*step);
  //
  // A replay asks the driver for launches alone: no shape is looked at, no argument set, no memory asked for.
  using Recording = ClRecording;
  template <class Body> Expected<ClRecording> record(Body&& body) {
    if (Status status = begin_recording(); !status.ok()) return failure(std::move(status));
    Status status = body();
    ClRecording recording = end_recording();
    if (!status.ok()) return failure(std::move(status));
    return recording;
  }
  Status replay(const ClRecording& recording);

  // How operators are cut from the next call on (cl_tuning.hpp); sizes of workspaces may change with it.
  Status tune(std::string_view op, std::string_view parameter, long value);
  Expected<int> tuned(std::string_view op, std::string_view parameter) const;
  // Where the values come from: compiled in, or a file.
  const std::string& tuning() const;

  // The time of the kernels since the last call, with options.profiling; 0 without. Each 4096th kernel is waited for,
  // so that it may be asked seldom.
  double kernel_seconds();

  cl::Runtime& runtime() const { return *runtime_; }  // for cl_kernels/

 private:
  explicit Cl(std::unique_ptr<cl::Runtime> runtime);
  Status begin_recording();
  ClRecording end_recording();

  std::unique_ptr<cl::Runtime> runtime_;
};

namespace cl {

// Does each view of an operator lie within its buffer, and the workspace, and is it aligned there where the buffer lies
// over memory of the host's? Buffers are asked in each call: an engine's handle may be another buffer's by the next.
class Bounds {
 public:
  explicit Bounds(Cl& cl) : cl_(cl) {}

  // `in_list`: a view's place in a list, or -1. `reach`: its bytes, counted from where it begins.
  void demand(std::string_view field, int in_list, ConstClAddress at, ByteRange reach, std::ptrdiff_t alignment);
  Status status() { return std::move(status_); }

 private:
  Cl& cl_;
  cl_mem asked_ = nullptr;  // the buffer of the last view
  std::ptrdiff_t bytes_ = 0, past_line_ = 0;
  Status status_;
};

template <class Op> Status check_bounds(Cl& cl, const Op& op, const SpaceWorkspace<Cl>& workspace) {
  Bounds bounds(cl);
  const auto one = [&](std::string_view field, int in_list, auto view) {
    if constexpr (std::is_same_v<typename decltype(view)::space, Cl>) {
      if (view.empty()) return;
      const ConstClAddress at = std::exchange(view.data, {});
      bounds.demand(field, in_list, at, byte_range(view), std::max(bits(view.dtype) / 8, 1));
    }
  };
  for_each_field(op, [&](const auto& field, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (ViewLike<Value>) {
      one(field.name, -1, value);
    } else if constexpr (ListOfViews<Value>) {
      int i = 0;
      for (const auto& view : value) one(field.name, i++, view);
    }
  });
  constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();
  if (workspace.bytes > 0)
    bounds.demand("workspace", -1, workspace.begin, {0, static_cast<std::ptrdiff_t>(std::min(workspace.bytes, most))},
                  workspace_alignment);
  return bounds.status();
}

// Room for what the next operator's kernels may meet: where there is none, the queue is waited for. Never within an
// operator, whose launches share their places.
Status make_room(Cl& cl);

// In cl_kernels/<op>.cpp. `op` has passed its check.
template <class Op> std::size_t scratch_bytes(Cl& cl, const Op& op);
template <class Op> Status compute(Cl& cl, const Op& op, const SpaceWorkspace<Cl>& workspace);

}  // namespace cl

// OpenCL covers every contract whole.
template <class Op> Status supports(const Cl&, const Op&) { return {}; }
template <class Op> std::size_t scratch_bytes(Cl& backend, const Op& op) { return cl::scratch_bytes(backend, op); }
template <class Op> Status compute(Cl& backend, const Op& op, const SpaceWorkspace<Cl>& workspace) {
  if (Status status = cl::check_bounds(backend, op, workspace); !status.ok()) return status;
  if (Status status = cl::make_room(backend); !status.ok()) return status;
  return cl::compute(backend, op, workspace);
}

}  // namespace inlay
