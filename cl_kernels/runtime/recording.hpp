// Launches that are kept to be given to the queue again and again. Each has a kernel object of its own, with all of its
// arguments set: a replay asks the driver for nothing but the launches.
//
//   | kernel, its range | kernel, its range | ..      rms_norm, prepare, product, rope, ..
//
// Slots of faults live as long: their numbers are among the arguments.
#pragma once

#include <CL/cl.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "cl_kernels/runtime/device_faults.hpp"
#include "cl_kernels/runtime/programs.hpp"

namespace inlay::cl {

// Work-items in all, and those of a group, by dimension.
struct Range {
  std::size_t global[3], local[3];
};

class Recording {
 public:
  struct Launch {
    cl_kernel kernel;
    const char* name;
    Range range;
  };

  explicit Recording(std::shared_ptr<RecordedSlots> slots) : slots_(std::move(slots)) {}
  Recording(const Recording&) = delete;
  ~Recording() { slots_->give_back(own_slots_); }

  Kernel* keep(std::unique_ptr<Kernel> kernel) { return kernels_.emplace_back(std::move(kernel)).get(); }
  void add(const Launch& launch) { launches_.push_back(launch); }
  FaultSlot slot(Describe describe) { return own_slots_.emplace_back(slots_->take(std::move(describe))); }

  const std::vector<Launch>& launches() const { return launches_; }
  // Was it recorded where these slots are told of?
  bool is_of(const std::shared_ptr<RecordedSlots>& slots) const { return slots == slots_; }
  bool reports() const { return !own_slots_.empty(); }

 private:
  std::shared_ptr<RecordedSlots> slots_;
  std::vector<FaultSlot> own_slots_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Launch> launches_;
};

}  // namespace inlay::cl
