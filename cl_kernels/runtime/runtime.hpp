// What a Cl holds, for the launchers of cl_kernels/<op>.cpp.
//
//   Variant variant = Variant("rms_norm").type("X", op.x.dtype)..;
//   return launch(cl, variant, "rms_norm", {.groups = {rows}, .lanes = {lanes}}, op.x, op.x.strides[0], .., op.eps);
//
// A view is two arguments of a kernel: its buffer and the element where it begins; an absent one is null and 0. index
// is long, int is int, float is float.
#pragma once

#include <CL/cl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inlay/cl.hpp>

#include "cl_kernels/runtime/dot.hpp"
#include "cl_kernels/runtime/memory.hpp"
#include "cl_kernels/runtime/offences.hpp"
#include "cl_kernels/runtime/programs.hpp"
#include "cl_kernels/runtime/staging.hpp"
#include "cl_kernels/runtime/variant.hpp"
#include "cl_kernels/tuning/tuning.hpp"

namespace inlay::cl {

// Work-groups, and the work-items of each, by dimension.
struct Grid {
  struct Extents {
    index x = 1, y = 1, z = 1;
  };
  Extents groups, lanes;
};

// A part of a workspace as an argument: a buffer and the element where the part begins.
struct Part {
  ClAddress address;
  int element_bytes = 1;  // of an absent one too: it is divided by
};

// Where a kernel tells of an index: two arguments, the record and the place's number.
struct Place {
  cl_mem record;
  cl_int number;
};

class Runtime {
 public:
  static Expected<std::unique_ptr<Runtime>> make(cl_context context, cl_command_queue queue, cl_device_id id,
                                                 ClDevice record, ClOptions options);
  Runtime(const Runtime&) = delete;
  ~Runtime();

  const ClDevice& device() const { return record_; }
  const ClOptions& options() const { return options_; }
  cl_context context() const { return context_; }
  cl_command_queue queue() const { return queue_; }
  Memory& memory() { return *memory_; }
  Programs& programs() { return *programs_; }

  bool cpu_shape() const { return options_.shape == ClShape::cpu; }
  // The device is this machine's processor and its compiler clang, as assembly and builtins take for granted. Assembly
  // of another processor ends oclgrind and rusticl while they build it: they are not even asked.
  bool on_this_processor() const { return record_.is_cpu && record_.platform == "Portable Computing Language"; }
  // Work-items of a group: one in the cpu shape, else `wanted`, a power of two (lanes meet by butterflies) up to
  // most_lanes. A device whose groups hold fewer has no gpu shape: tiles are cut for as many.
  static constexpr std::size_t most_lanes = 256;
  int lanes(int wanted = 128) const { return cpu_shape() ? 1 : wanted; }
  // -D FP64: support/double.clh makes doubles of integers without.
  bool has_doubles() const { return !options_.only_fallbacks && record_.has("cl_khr_fp64"); }
  // How dot products of bytes are taken: found out when it is first asked for.
  const Dot& dot();
  void take(const Dot& dot) { dot_ = dot; }  // one of dot_ways
  // Whether codes are subnormal floats, in the cpu shape: found out when it is first asked for.
  bool subnormal_codes();
  void take_subnormal_codes(bool taken) { subnormal_codes_ = taken; }
  // Groups that keep the device busy: what a split aims at.
  index busy_groups() const;
  // How a kernel is cut: the device's values, or a file's.
  int tuned(Tunable parameter) const { return tuning_[parameter]; }
  int lanes(Tunable wanted) const { return lanes(tuned(wanted)); }
  Tuning& tuning() { return tuning_; }

  Place place(Describe describe) { return {offences_->memory(), offences_->place(std::move(describe))}; }

  // Between operators: that there is room for the places of one more.
  Status make_room() { return offences_->full() ? wait() : Status(); }

  Status enqueue(cl_kernel kernel, const char* name, const Grid& grid);
  Status upload(ClAddress to, std::span<const std::byte> from);
  Status download(std::span<std::byte> to, ConstClAddress from);
  Status finish();
  double kernel_seconds();

 private:
  // Events that nobody has asked for the time of, which the driver keeps.
  static constexpr std::size_t most_events = 4096;

  // For the queue; what kernels met is kept.
  Status wait();
  void sum_events();

  Runtime() = default;

  ClDevice record_;
  ClOptions options_;
  Tuning tuning_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Programs> programs_;
  std::unique_ptr<Offences> offences_;
  std::optional<Dot> dot_;
  std::optional<bool> subnormal_codes_;
  std::vector<cl_event> events_;
  double seconds_ = 0;  // of kernels whose events are gone
};

// A struct that a kernel takes by value; host and device compile one header that says what it holds.
template <class T> inline constexpr bool is_kernel_struct = false;

namespace detail {

// Sets what one value of a launcher is to its kernel.
class Arguments {
 public:
  Arguments(Kernel& kernel, const Memory& memory) : kernel_(kernel), memory_(memory) {}

  void add(index value) { set(static_cast<cl_long>(value)); }
  void add(int value) { set(static_cast<cl_int>(value)); }
  void add(unsigned value) { set(static_cast<cl_uint>(value)); }
  void add(float value) { set(static_cast<cl_float>(value)); }
  void add(bool value) { set(static_cast<cl_int>(value)); }
  void add(const Part& part) {
    set_buffer(part.address.memory);
    set(static_cast<cl_long>(part.address.offset / part.element_bytes));
  }
  void add(const Place& place) {
    set(place.record);  // the Runtime's own
    set(place.number);
  }
  template <class T>
  requires is_kernel_struct<T>
  void add(const T& value) { set(value); }
  template <ViewLike V> void add(const V& view) {
    set_buffer(view.data.memory);
    set(static_cast<cl_long>(view.data.offset * 8 / bits(view.dtype)));
  }

  cl_int error() const { return error_; }
  cl_uint failed() const { return failed_; }

 private:
  template <class T> void set(const T& value) { note(kernel_.set(next_, value)); }
  void set_buffer(cl_mem buffer) { note(kernel_.set(next_, buffer, memory_)); }
  void note(cl_int error) {
    if (error != CL_SUCCESS && error_ == CL_SUCCESS) {
      error_ = error;
      failed_ = next_;
    }
    ++next_;
  }

  Kernel& kernel_;
  const Memory& memory_;
  cl_uint next_ = 0, failed_ = 0;
  cl_int error_ = CL_SUCCESS;
};

Status argument_status(cl_int error, const char* kernel, cl_uint argument);

}  // namespace detail

template <class... Values>
Status launch(Cl& cl, const Variant& variant, const char* name, const Grid& grid, const Values&... values) {
  Runtime& runtime = cl.runtime();
  auto kernel = runtime.programs().kernel(variant, name);
  if (!kernel) return std::move(kernel.error());
  detail::Arguments arguments(**kernel, runtime.memory());
  (arguments.add(values), ...);
  if (arguments.error() != CL_SUCCESS) return detail::argument_status(arguments.error(), name, arguments.failed());
  return runtime.enqueue((*kernel)->object(), name, grid);
}

// Where a view begins, by 64: its buffer may lie over memory of the host's, which begins anywhere. 1 where the driver
// does not tell, which no vector divides.
template <class V> std::ptrdiff_t past_line(const Cl& cl, const V& view) {
  const auto buffer = cl.runtime().memory().about(view.data.memory);
  return buffer ? (buffer->past_line + view.data.offset) % static_cast<std::ptrdiff_t>(workspace_alignment) : 1;
}

// Do all rows of these views begin where a whole vector may be read at once (-D ALIGNED, support/types.clh)? Absent
// views do not matter. Rows are walked from their first element: a kernel that begins elsewhere asks for more. Of no
// use to a CPU, which reads vectors from anywhere.
template <class... V> bool aligned(const Cl& cl, const V&... view) {
  constexpr index width = 8;  // support/rows.clh, the gpu shape
  const auto one = [&](const auto& v) {
    if (!v.present()) return true;
    if (bits(v.dtype) < 8 || past_line(cl, v) * 8 % (width * bits(v.dtype)) != 0) return false;
    for (int d = 0; d + 1 < std::remove_cvref_t<decltype(v)>::rank; ++d)
      if (v.extents[d] > 1 && v.strides[d] % width != 0) return false;
    return true;
  };
  return !cl.runtime().cpu_shape() && (one(view) && ...);
}

// An entry outside 0..rows-1: the words of check_entries (core/entries.hpp).
template <class Op> Place place_of_entry(Cl& cl, const char* name, index rows) {
  return cl.runtime().place([name, rows](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid(std::string(name) + "[" + std::to_string(at) + "] is " + std::to_string(value) +
                               "; it must be in 0.." + std::to_string(rows - 1)));
  });
}

// Cuts a workspace into aligned arrays, in the order in which the sizes were added up: WorkspaceCutter on a device.
class PartCutter {
 public:
  explicit PartCutter(const SpaceWorkspace<Cl>& workspace) : at_(workspace.data()) {}
  template <class T> Part take(index count) {
    const Part part{at_, sizeof(T)};
    at_.offset += static_cast<std::ptrdiff_t>(WorkspaceCutter::padded<T>(count));
    return part;
  }

 private:
  ClAddress at_;
};

}  // namespace inlay::cl
