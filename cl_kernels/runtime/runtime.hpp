// What a Cl holds, for the launchers of cl_kernels/<op>.cpp (launch.hpp).
#pragma once

#include <CL/cl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inlay/cl.hpp>

#include "cl_kernels/runtime/device_faults.hpp"
#include "cl_kernels/runtime/dot.hpp"
#include "cl_kernels/runtime/memory.hpp"
#include "cl_kernels/runtime/program_key.hpp"
#include "cl_kernels/runtime/programs.hpp"
#include "cl_kernels/runtime/recording.hpp"
#include "cl_kernels/runtime/staging.hpp"
#include "cl_kernels/tuning/tuning.hpp"

namespace inlay::cl {

// Work-groups, and the work-items of each, by dimension.
struct Grid {
  struct Extents {
    index x = 1, y = 1, z = 1;
  };
  Extents groups, lanes;
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

  bool per_item() const { return options_.shape == ClShape::per_item; }
  // The device is this machine's processor and its compiler clang, as assembly and builtins take for granted. Assembly
  // of another processor ends oclgrind and rusticl while they build it: they are not even asked.
  bool on_this_processor() const { return record_.is_cpu && record_.platform == "Portable Computing Language"; }
  // Work-items of a group: one in the per-item shape, else `wanted`, a power of two (lanes meet by butterflies) up to
  // max_lanes. A device whose groups hold fewer has no per-group shape: tiles are cut for as many.
  static constexpr std::size_t max_lanes = 256;
  int lanes(int wanted = 128) const { return per_item() ? 1 : wanted; }
  // -D FP64: support/double.clh makes doubles of integers without.
  bool has_doubles() const { return !options_.only_fallbacks && record_.has("cl_khr_fp64"); }
  // How dot products of bytes are taken: found out when it is first asked for.
  const Dot& dot();
  void take(const Dot& dot) { dot_ = dot; }  // one of dot_ways
  // Whether codes are subnormal floats, in the per-item shape: found out when it is first asked for.
  bool subnormal_codes();
  void take_subnormal_codes(bool taken) { subnormal_codes_ = taken; }
  // Groups that keep the device busy: what a split aims at.
  index busy_groups() const;
  // How a kernel is cut: the device's values, or a file's.
  int tuned(const ClParameter& parameter) const { return tuning_[parameter]; }
  int lanes(const ClParameter& wanted) const { return lanes(tuned(wanted)); }
  Tuning& tuning() { return tuning_; }

  // Where a kernel reports an index out of range: the record is the buffer `faults` of the kernel.
  FaultSlot fault_slot(Describe describe) {
    return is_recording() ? recording_->slot(std::move(describe)) : faults_->slot(std::move(describe));
  }
  cl_mem fault_record() const { return faults_->memory(); }

  // Between operators: that there is room for the places of one more.
  Status make_room() { return faults_->full() ? wait() : Status(); }

  // For the next launch.
  Expected<Kernel*> kernel(const ProgramKey& key, const char* name);
  Status enqueue(cl_kernel kernel, const char* name, const Grid& grid);

  // Between them launches are kept in place of being given to the queue.
  Status begin_recording();
  std::unique_ptr<Recording> end_recording() { return std::move(recording_); }
  bool is_recording() const { return recording_ != nullptr; }
  // Copies go by at once: `what` is refused within a recording.
  Status check_not_recording(const char* what) const;
  Status replay(const Recording& recording);

  Status upload(ClAddress to, std::span<const std::byte> from);
  Status download(std::span<std::byte> to, ConstClAddress from);
  Status finish();
  double kernel_seconds();

 private:
  // Events that nobody has asked for the time of, which the driver keeps.
  static constexpr std::size_t max_events = 4096;

  // For the queue; what kernels met is kept.
  Status wait();
  void sum_events();
  Status enqueue(const Recording::Launch& launch);

  Runtime() = default;

  ClDevice record_;
  ClOptions options_;
  Tuning tuning_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Programs> programs_;
  std::unique_ptr<DeviceFaults> faults_;
  std::unique_ptr<Recording> recording_;  // that is under way
  std::optional<Dot> dot_;
  std::optional<bool> subnormal_codes_;
  std::vector<cl_event> events_;
  double seconds_ = 0;  // of kernels whose events are gone
};

}  // namespace inlay::cl
