// Indices out of range that kernels meet (core/backend.hpp has the rule). A kernel that reads an index gets one or more
// slots, which say what the index is and what it must be; the first fault is claimed in device memory
// (support/fault.clh), and finish() makes a Status of it.
#pragma once

#include <CL/cl.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/status.hpp>

namespace inlay::cl {

// From where it was met and what it was to what a person reads. `at` and `value` are the kernel's.
using Describe = std::function<Status(std::int64_t at, std::int64_t value)>;

// The number by which a kernel names what it reports.
using FaultSlot = cl_int;

class DeviceFaults {
 public:
  explicit DeviceFaults(cl_mem record) : record_(record) {}
  DeviceFaults(const DeviceFaults&) = delete;
  ~DeviceFaults() { clReleaseMemObject(record_); }

  // What support/fault.clh writes.
  struct Record {
    cl_int claimed = 0, slot = 0;
    cl_long at = 0, value = 0;
  };

  FaultSlot slot(Describe describe) {
    slots_.push_back(std::move(describe));
    return static_cast<FaultSlot>(slots_.size()) - 1;
  }
  cl_mem memory() const { return record_; }
  // Numbers of slots begin anew with the next wait: before there are more of them, somebody must wait. Between two
  // launches of one operator nobody may, which has slots of its own.
  bool full() const { return slots_.size() >= max_slots; }

  // Around a wait: the record is asked for before, and what it holds kept behind. Then there are no slots.
  cl_int ask(cl_command_queue queue);
  Status keep(cl_command_queue queue);
  // What was met first since the last time.
  Status tell() { return std::exchange(kept_, {}); }
  // The queue could not be waited for, and may still write what was asked for: that memory stays.
  void leave() { static_cast<void>(met_.release()); }

 private:
  static constexpr std::size_t max_slots = 4096;

  cl_mem record_;
  std::unique_ptr<Record> met_ = std::make_unique<Record>();
  std::vector<Describe> slots_;  // of the kernels since the last wait
  Status kept_;
};

}  // namespace inlay::cl
