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

// The number by which a kernel names what it reports: from 0 on until the next wait, below 0 for as long as a recording
// has it.
using FaultSlot = cl_int;

// The slots of all recordings, which may outlive their device.
class RecordedSlots {
 public:
  FaultSlot take(Describe describe) {
    if (free_.empty()) {
      all_.push_back(std::move(describe));
      return -static_cast<FaultSlot>(all_.size());
    }
    const FaultSlot slot = free_.back();
    free_.pop_back();
    all_[place(slot)] = std::move(describe);
    return slot;
  }
  // The recording is gone; what it gave to the queue may report them until the next wait.
  void give_back(const std::vector<FaultSlot>& slots) { gone_.insert(gone_.end(), slots.begin(), slots.end()); }
  void waited() {
    free_.insert(free_.end(), gone_.begin(), gone_.end());
    gone_.clear();
  }
  const Describe* find(FaultSlot slot) const {
    return slot < 0 && place(slot) < all_.size() ? &all_[place(slot)] : nullptr;
  }

 private:
  static std::size_t place(FaultSlot slot) { return static_cast<std::size_t>(-(slot + 1)); }

  std::vector<Describe> all_;  // -1, -2, ..
  std::vector<FaultSlot> free_, gone_;
};

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

  const std::shared_ptr<RecordedSlots>& recorded() const { return recorded_; }
  // Some of theirs may be reported from now on.
  void note_replay() { replayed_ = true; }

  // Around a wait: the record is asked for before, and what it holds kept behind. Then there are no slots but recorded
  // ones.
  cl_int ask(cl_command_queue queue);
  Status keep(cl_command_queue queue);
  // What was met first since the last time.
  Status tell() { return std::exchange(kept_, {}); }
  // The queue could not be waited for, and may still write what was asked for: that memory stays.
  void leave() { static_cast<void>(met_.release()); }

 private:
  static constexpr std::size_t max_slots = 4096;

  bool may_have_met() const { return replayed_ || !slots_.empty(); }
  const Describe* find(FaultSlot slot) const;

  cl_mem record_;
  std::unique_ptr<Record> met_ = std::make_unique<Record>();
  std::vector<Describe> slots_;  // of the kernels since the last wait
  std::shared_ptr<RecordedSlots> recorded_ = std::make_shared<RecordedSlots>();
  bool replayed_ = false;  // since the last wait
  Status kept_;
};

}  // namespace inlay::cl
